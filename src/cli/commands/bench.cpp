// heed bench: measures how fast attention, matrix products and whole models run, compared with the limits of
// the machine. What is measured is in src/bench; here are the options and the reports.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "bench/layers.h"
#include "bench/model.h"
#include "cli/cli.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/threads.h"

namespace heed::cli {
namespace {

using bench::Cost;
using bench::CostValue;
using bench::KindCosts;
using bench::Measurement;
using bench::Speed;
using bench::Work;

void print_report_json(const Work& work, const Measurement& measured, const Speed& speed) {
  const auto [least, most] = std::minmax_element(measured.seconds.begin(), measured.seconds.end());
  JsonWriter json;
  json.begin_object()
      .field("bench", work.kind)
      .field("median_s", speed.seconds)
      .field("min_s", *least)
      .field("max_s", *most)
      .field("repeats", measured.seconds.size())
      .field("threads", threads())
      .field("gflops", speed.gflops)
      .field("gbps", speed.gbps)
      .field("peak_gflops", speed.peak_gflops)
      .field("peak_gbps", speed.peak_gbps)
      .field("fraction", speed.fraction)
      .field("bound", speed.bound);
  if (work.backward) {
    const double backward = bench::median(measured.backward_seconds);
    const double gflops = work.backward_operations / backward / 1e9;
    json.field("backward_median_s", backward)
        .field("backward_gflops", gflops)
        .field("backward_fraction", gflops / speed.peak_gflops);
  }
  for (const auto& [item, count] : work.items) json.field(item + "_per_s", count / speed.seconds);
  json.field("peak_memory_bytes", measured.peak_memory).field("memory_growth_bytes", measured.memory_growth);
  json.key("shape").begin_object();
  for (const auto& entry : work.shape) {
    json.key(entry.first);
    std::visit([&](const auto& value) { json.value(value); }, entry.second);
  }
  print_stdout("{}\n", json.end_object().end_object().text());
}

std::string shape_text(const Work& work) {
  std::string text;
  for (const auto& entry : work.shape) {
    const auto& value = entry.second;
    text += "  " + entry.first;
    if (const auto* number = std::get_if<std::int64_t>(&value)) text += " " + std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) text += " " + *word;
    if (const auto* flag = std::get_if<bool>(&value)) text += *flag ? " yes" : " no";
  }
  return text;
}

void print_report(const Work& work, const Measurement& measured, const Speed& speed) {
  const auto [least, most] = std::minmax_element(measured.seconds.begin(), measured.seconds.end());
  print_stdout("{}{}\n\n", work.kind, shape_text(work));
  print_stdout("time        {:.4g} ms  ({:.4g} to {:.4g} ms in {} repeats, {} threads)\n",
               1e3 * speed.seconds, 1e3 * *least, 1e3 * *most, measured.seconds.size(), threads());
  for (const auto& [item, count] : work.items)
    print_stdout("{:<12}{:.5g} per second\n", item, count / speed.seconds);
  print_stdout("arithmetic  {:.4g} of {:.4g} Gflop/s\n", speed.gflops, speed.peak_gflops);
  print_stdout("memory      {:.4g} of {:.4g} GB/s\n", speed.gbps, speed.peak_gbps);
  print_stdout("limit       {:.1f} % of {}\n", 100 * speed.fraction, speed.bound);
  if (work.backward) {
    const double backward = bench::median(measured.backward_seconds);
    print_stdout("backward    {:.4g} ms, {:.1f} % of arithmetic\n", 1e3 * backward,
                 100 * work.backward_operations / backward / 1e9 / speed.peak_gflops);
  }
  print_stdout("peak        {:.1f} MB, {:.1f} MB above the start\n",
               static_cast<double>(measured.peak_memory) / 1e6,
               static_cast<double>(measured.memory_growth) / 1e6);
}

void measure_and_print(const Work& work, const bench::Repeats& repeats, const Globals& globals) {
  const Measurement measured = measure(work, repeats);
  const Speed speed(work, measured);
  if (globals.json) {
    print_report_json(work, measured, speed);
  } else {
    print_report(work, measured, speed);
  }
}

void print_table(const std::string& title, const std::vector<KindCosts>& kinds, CostValue value,
                 double unit) {
  print_stdout("{:<18}", title);
  for (const KindCosts& kind : kinds) print_stdout("{:>11}", kind.kind);
  print_stdout("\n");
  for (std::size_t i = 0; i < kinds.front().costs.size(); ++i) {
    print_stdout("{:<18}", kinds.front().costs[i].length);
    for (const KindCosts& kind : kinds)
      print_stdout("{:>11}",
                   i < kind.costs.size() ? fmt::format("{:.4g}", kind.costs[i].*value * unit) : "-");
    print_stdout("\n");
  }
  print_stdout("{:<18}", "slope");
  for (const KindCosts& kind : kinds) {
    const double slope = bench::slope(kind, value);
    print_stdout("{:>11}", std::isfinite(slope) ? fmt::format("{:.2f}", slope) : "-");
  }
  print_stdout("\n\n");
}

void print_lengths(const std::vector<KindCosts>& kinds) {
  print_table("time, ms", kinds, &Cost::seconds, 1e3);
  print_table("memory, MB", kinds, &Cost::bytes, 1e-6);
  print_table("next token, us", kinds, &Cost::token_seconds, 1e6);
  for (const KindCosts& kind : kinds) {
    const double length = crossover(kinds.front(), kind);
    if (std::isfinite(length))
      print_stdout("{} is faster than full from {:.0f} tokens on\n", kind.kind, length);
  }
}

void print_lengths_json(const std::vector<KindCosts>& kinds) {
  for (const KindCosts& kind : kinds) {
    JsonWriter json;
    json.begin_object().field("kind", kind.kind).key("costs").begin_array();
    for (const Cost& cost : kind.costs) {
      json.begin_object()
          .field("length", cost.length)
          .field("seconds", cost.seconds)
          .field("bytes", cost.bytes)
          .field("token_seconds", cost.token_seconds)
          .end_object();
    }
    json.end_array()
        .field("seconds_slope", slope(kind, &Cost::seconds))
        .field("bytes_slope", slope(kind, &Cost::bytes))
        .field("token_seconds_slope", slope(kind, &Cost::token_seconds))
        .field("faster_than_full_from", crossover(kinds.front(), kind));
    print_stdout("{}\n", json.end_object().text());
  }
}

void add_repeats(CLI::App& command, bench::Repeats& repeats) {
  OptionGroup measurement(command, "Measurement");
  measurement.number("--seconds", repeats.seconds, "Repeat for about this many seconds", positive_number());
  measurement.count("--repeats", repeats.count, 1, "Repeat this many times instead");
}

/// An option of the group "Shape": a whole number from `least` on.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& value,
                      const std::string& text, std::int64_t least = 1) {
  return command.add_option(name, value, text)
      ->transform(whole_number(least, std::int64_t{1} << 31))
      ->type_name("N")
      ->group("Shape");
}

void add_backward(CLI::App& command, bool& backward) {
  OptionGroup(command, "Measurement").flag("--backward", backward, "Also time the backward pass");
}

void add_number_dtype(CLI::App& command, std::string& dtype, const char* text) {
  OptionGroup(command, "Shape").value("--dtype", dtype, "f32|bf16|f16|f64", text)->capture_default_str();
}

DType number_dtype(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw UsageError("--dtype: expected f32, bf16, f16 or f64, got " + name);
}

struct AttentionArguments {
  std::string kind = "full", dtype = "f32";
  bench::AttentionShape sizes;
  bench::Repeats repeats;
};

bench::AttentionForm attention_kind(const std::string& name) {
  for (const bench::AttentionForm kind : bench::kAttentionForms) {
    if (name == bench::name_of(kind)) return kind;
  }
  throw UsageError("--pattern: expected full, window, strided, fixed, linear or formula, got " + name);
}

void bench_attention(const AttentionArguments& a, const Globals& globals) {
  bench::AttentionShape sizes = a.sizes;
  sizes.kind = attention_kind(a.kind);
  sizes.dtype = number_dtype(a.dtype);
  if (sizes.kv_heads > 0 && sizes.heads % sizes.kv_heads != 0)
    throw UsageError(fmt::format("--num-kv-heads: expected a divisor of --num-heads {}, got {}", sizes.heads,
                                 sizes.kv_heads));
  measure_and_print(attention_work(sizes), a.repeats, globals);
}

void add_bench_attention(CLI::App& parent, const Globals& globals) {
  CLI::App* command =
      parent.add_subcommand("attention", "Time attention: full, in a window, sparse or linear");
  auto a = std::make_shared<AttentionArguments>();
  bench::AttentionShape& sizes = a->sizes;
  OptionGroup shape(*command, "Shape");
  shape
      .value("--pattern", a->kind, "full|window|strided|fixed|linear|formula",
             "Which keys a query attends to, and how")
      ->capture_default_str();
  add_size(*command, "--batch", sizes.batch, "Sequences")->capture_default_str();
  add_size(*command, "--num-heads", sizes.heads, "Query heads")->capture_default_str();
  add_size(*command, "--num-kv-heads", sizes.kv_heads, "Key-value heads (default: as many as query heads)");
  add_size(*command, "--head-dim", sizes.head_dim, "Dimension of a head")->capture_default_str();
  add_size(*command, "--length", sizes.length, "Queries")->capture_default_str();
  add_size(*command, "--num-keys", sizes.keys, "Keys (default: as many as queries)");
  add_size(*command, "--window", sizes.window,
           "Sliding window: keys a query sees, itself included; 0 for all (--pattern window: 256)", 0)
      ->capture_default_str();
  add_size(*command, "--stride", sizes.stride,
           "Stride of strided and fixed (default: the square root of the keys)");
  add_size(*command, "--summary", sizes.summary, "Keys of each earlier block that fixed sees")
      ->capture_default_str();
  shape.flag("--causal", sizes.causal,
             "Causal mask: a query sees no later key (always so with strided and fixed)");
  add_backward(*command, sizes.backward);
  add_number_dtype(*command, a->dtype, "Type of the numbers");
  add_repeats(*command, a->repeats);
  command->footer(
      "Examples:\n"
      "  heed bench attention --length 4096 --causal\n"
      "  heed bench attention --num-heads 1 --length 65536 --backward --repeats 1\n"
      "  heed bench attention --pattern linear --num-heads 8 --length 65536 --causal --backward\n"
      "  heed bench attention --num-heads 32 --num-kv-heads 8 --head-dim 128 --length 1 --num-keys 4096 "
      "--json");
  command->callback([a, &globals] { bench_attention(*a, globals); });
}

struct LengthsArguments {
  bench::LengthRange range;
  std::filesystem::path output;
  bench::Repeats repeats{.seconds = 0.5};
};

void bench_lengths(const LengthsArguments& a, const Globals& globals) {
  if (a.range.from > a.range.to)
    throw UsageError(fmt::format("--from: expected at most --to {}, got {}", a.range.to, a.range.from));
  const std::vector<KindCosts> kinds =
      measure_lengths(a.range, a.repeats, [&](const std::string& kind, std::int64_t length) {
        if (!globals.quiet) std::cerr << kind << ", " << length << " tokens\n";
      });
  if (globals.json) {
    print_lengths_json(kinds);
  } else {
    print_lengths(kinds);
  }
  if (a.output.empty()) return;
  std::filesystem::create_directories(a.output);
  const char* title = "Attention, forward and backward";
  write_file(a.output / "time.svg", lengths_chart(title, "milliseconds", kinds, &Cost::seconds, 1e3));
  write_file(a.output / "memory.svg",
             lengths_chart(title, "peak MB besides inputs", kinds, &Cost::bytes, 1e-6));
  write_file(a.output / "token.svg",
             lengths_chart("Attention of one more token", "microseconds", kinds, &Cost::token_seconds, 1e6));
}

void add_bench_lengths(CLI::App& parent, const Globals& globals) {
  CLI::App* command = parent.add_subcommand(
      "lengths", "Time and memory of every kind of attention by length, with slopes and charts");
  auto a = std::make_shared<LengthsArguments>();
  bench::LengthRange& range = a->range;
  add_size(*command, "--from", range.from, "Shortest length in tokens")->capture_default_str();
  add_size(*command, "--to", range.to, "Longest length; each is twice the one before")->capture_default_str();
  add_size(*command, "--formula-to", range.formula_to,
           "Longest length for the formula, whose memory is quadratic")
      ->capture_default_str();
  add_size(*command, "--num-heads", range.heads, "Heads")->capture_default_str();
  add_size(*command, "--head-dim", range.head_dim, "Dimension of a head")->capture_default_str();
  add_size(*command, "--window", range.window, "Keys that a query of pattern window sees")
      ->capture_default_str();
  OptionGroup(*command, "Output")
      .value("-o,--output", a->output, "DIR",
             "Folder for the charts time.svg, memory.svg and token.svg (created if missing)");
  add_repeats(*command, a->repeats);
  command->footer(
      "Examples:\n"
      "  heed bench lengths --output costs\n"
      "  heed bench lengths --to 8192 --num-heads 8 --json");
  command->callback([a, &globals] { bench_lengths(*a, globals); });
}

struct RecurrentArguments {
  std::string cell = "lstm";
  bench::RecurrentSizes sizes;
  bench::Repeats repeats;
};

void bench_recurrent(const RecurrentArguments& a, const Globals& globals) {
  if (a.cell != "lstm" && a.cell != "gru") throw UsageError("--cell: expected lstm or gru, got " + a.cell);
  bench::RecurrentSizes sizes = a.sizes;
  sizes.is_lstm = a.cell == "lstm";
  measure_and_print(recurrent_work(sizes), a.repeats, globals);
}

void add_bench_recurrent(CLI::App& parent, const Globals& globals) {
  CLI::App* command =
      parent.add_subcommand("recurrent", "Time a recurrent layer: LSTM or GRU over sequences");
  auto a = std::make_shared<RecurrentArguments>();
  bench::RecurrentSizes& sizes = a->sizes;
  OptionGroup(*command, "Shape")
      .value("--cell", a->cell, "lstm|gru", "The kind of layer")
      ->capture_default_str();
  add_size(*command, "--batch", sizes.batch, "Sequences")->capture_default_str();
  add_size(*command, "--length", sizes.length, "Steps of a sequence")->capture_default_str();
  add_size(*command, "--input-size", sizes.input, "Numbers of each input")->capture_default_str();
  add_size(*command, "--hidden", sizes.hidden, "Numbers of the state")->capture_default_str();
  add_backward(*command, sizes.backward);
  add_repeats(*command, a->repeats);
  command->footer(
      "Examples:\n"
      "  heed bench recurrent --cell gru --batch 32 --length 64 --backward\n"
      "  heed bench recurrent --batch 1 --length 1000 --hidden 512 --json");
  command->callback([a, &globals] { bench_recurrent(*a, globals); });
}

struct GemmArguments {
  std::string dtype = "f32";
  bench::GemmSizes sizes;
  bench::Repeats repeats;
};

void add_bench_gemm(CLI::App& parent, const Globals& globals) {
  CLI::App* command = parent.add_subcommand("gemm", "Time a matrix product (GEMM), as in a linear layer");
  auto a = std::make_shared<GemmArguments>();
  bench::GemmSizes& sizes = a->sizes;
  add_size(*command, "--m", sizes.m, "Rows of the input")->capture_default_str();
  add_size(*command, "--n", sizes.n, "Columns of the output")->capture_default_str();
  add_size(*command, "--k", sizes.k, "Columns of the input")->capture_default_str();
  add_number_dtype(*command, a->dtype, "Type of the weight");
  OptionGroup(*command, "Measurement")
      .flag("--plain", sizes.plain, "Pack the weight again for every product, as training does");
  add_repeats(*command, a->repeats);
  command->footer(
      "Examples:\n"
      "  heed bench gemm --m 512 --n 3072 --k 768\n"
      "  heed bench gemm --m 1 --n 3072 --k 768 --dtype bf16 --json");
  command->callback([a, &globals] {
    a->sizes.dtype = number_dtype(a->dtype);
    measure_and_print(gemm_work(a->sizes), a->repeats, globals);
  });
}

/// The model is that of --model, of --config or of --shape.
struct ModelArguments {
  ModelChoice model;
  std::filesystem::path config;
  std::string shape;
  WeightArguments weights;
  bench::ModelSizes sizes;
  std::optional<CacheDType> cache_dtype;
  bench::Repeats repeats;
};

std::shared_ptr<const bench::BenchModel> bench_model(const ModelArguments& a) {
  const LoadOptions options = load_options(a.model, a.weights);
  if (!a.model.name.empty()) return bench::named_model(a.model.name, options);
  if (!a.config.empty()) return bench::random_model(a.config.string(), Config::load(a.config), options);
  const std::vector<std::string> known = bench::known_shapes();
  if (std::find(known.begin(), known.end(), a.shape) == known.end())
    throw UsageError(fmt::format("--shape: expected one of {}, got {}", fmt::join(known, ", "), a.shape));
  return bench::random_model(a.shape, bench::known_shape(a.shape), options);
}

using MakeWork = Work (*)(const std::shared_ptr<const bench::BenchModel>&, const bench::ModelSizes&);

CLI::App* add_model_bench(CLI::App& parent, const char* kind, const char* text, const char* shape,
                          MakeWork make_work, const bench::ModelSizes& sizes, const Globals& globals) {
  CLI::App* command = parent.add_subcommand(kind, text);
  auto a = std::make_shared<ModelArguments>();
  a->sizes = sizes;
  a->shape = shape;
  auto* by_model = add_stored_model_argument(*command, a->model);
  OptionGroup shapes(*command, "Shape");
  auto* by_config =
      OptionGroup(*command, "Model")
          .value("--config", a->config, "FILE", "A config.json: random weights of its family and sizes");
  auto* by_shape = command
                       ->add_option("--shape", a->shape,
                                    fmt::format("Random weights of a known model (default: {})", shape))
                       ->type_name(fmt::format("{}", fmt::join(bench::known_shapes(), "|")))
                       ->group("Model");
  by_model->excludes(by_config)->excludes(by_shape);
  by_config->excludes(by_shape);
  add_weight_options(*command, a->weights);
  const auto add_count = [&](const char* name, std::int64_t& value, const char* what) {
    shapes.count(name, value, 1, what);
  };
  add_count("--batch", a->sizes.batch, "Sequences in the batch");
  add_count("--length", a->sizes.length,
            "Tokens of each sequence (prompt or source); of images and sounds, the model's own");
  if (sizes.new_tokens > 1) {  // it decodes
    add_count("--new-tokens", a->sizes.new_tokens, "Tokens to generate for each sequence");
    add_count("--num-beams", a->sizes.beams, "Number of beams; 1 is greedy search");
    add_cache_dtype_option(*command, a->cache_dtype)->group("Model");
  }
  add_repeats(*command, a->repeats);
  command->callback([a, make_work, &globals] {
    a->sizes.cache_dtype = a->cache_dtype.value_or(CacheDType::f32);
    measure_and_print(make_work(bench_model(*a), a->sizes), a->repeats, globals);
  });
  return command;
}

void add_bench_models(CLI::App& parent, const Globals& globals) {
  add_model_bench(parent, "encode", "Time one pass of an encoder", "bert-base", bench::encode_work,
                  {.length = 128}, globals)
      ->footer(
          "Examples:\n  heed bench encode --shape bert-base --batch 8 --length 128 --json\n"
          "  heed bench encode --shape vit-base --batch 8");
  add_model_bench(parent, "generate", "Time generation with a decoder", "gpt2", bench::generate_work,
                  {.length = 8, .new_tokens = 32}, globals)
      ->footer("Examples:\n  heed bench generate --shape gpt2 --dtype bf16 --new-tokens 64");
  add_model_bench(parent, "translate", "Time translation or transcription with an encoder-decoder", "marian",
                  bench::translate_work, {.batch = 8, .length = 24, .new_tokens = 24}, globals)
      ->footer(
          "Examples:\n  heed bench translate en-fr --batch 8 --length 24 --num-beams 4\n"
          "  heed bench translate --shape whisper-base --batch 1 --new-tokens 100");
  add_model_bench(parent, "train", "Time training steps with AdamW", "gpt2", bench::train_work,
                  {.batch = 4, .length = 256}, globals)
      ->footer("Examples:\n  heed bench train --config config.json --batch 4 --length 256");
}

}  // namespace

void add_bench(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure speed on this machine, against its measured limits");
  command->require_subcommand(1);
  add_bench_attention(*command, globals);
  add_bench_lengths(*command, globals);
  add_bench_recurrent(*command, globals);
  add_bench_gemm(*command, globals);
  add_bench_models(*command, globals);
  command->footer(
      "Examples:\n"
      "  heed bench attention --num-heads 12 --head-dim 64 --length 4096 --causal\n"
      "  heed bench lengths --output costs\n"
      "  heed bench gemm --m 512 --n 3072 --k 768 --json\n"
      "  heed bench encode --shape bert-base --batch 8 --length 128\n"
      "  heed bench generate --shape gpt2 --dtype bf16\n"
      "  heed bench translate en-fr --num-beams 4\n"
      "  heed bench train --config config.json --batch 4 --length 256");
}

}  // namespace heed::cli
