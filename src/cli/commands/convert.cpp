// heed convert: writes a model in another form: with its adapters merged, in another type, with a few bits
// for each number of its linear maps, as a GGUF file; or the mean of several models.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string_view>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/agreement.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "core/text_lines.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/generate/perplexity.h"
#include "heed/io/json.h"
#include "heed/models/adapter.h"
#include "heed/models/kind.h"
#include "heed/train/checkpoint.h"
#include "hub/cache.h"
#include "tensor/quantized_matrix.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct ConvertArguments {
  std::vector<std::string> models;
  ModelChoice model;  // the first of these, with its adapters
  WrittenModel to;
  int bits = 0;  // 0: numbers keep their type
  int output_bits = 0;
  std::int64_t group = 64;
  std::string method = "rtn";
  std::string type = "q4_0";
  std::string calibrate;
  std::int64_t tokens = 32768;
  std::string texts;
};

constexpr std::int64_t kCalibrationWindow = 512;

bool writes_gguf(const ConvertArguments& a) { return a.to.output.extension() == ".gguf"; }

QuantizeMethod method_named(const ConvertArguments& a) {
  if (a.method != "rtn" && a.calibrate.empty())
    throw UsageError("--calibrate: missing, which --method " + a.method + " needs");
  if (a.method == "rtn" && !a.calibrate.empty())
    throw UsageError("--calibrate: expected with --method gptq or awq only (rtn looks at no text)");
  if (a.method == "rtn") return QuantizeMethod::nearest;
  return a.method == "gptq" ? QuantizeMethod::gptq : QuantizeMethod::awq;
}

GgufType gguf_type_named(const std::string& name) {
  if (name == "f32") return GgufType::f32;
  if (name == "f16") return GgufType::f16;
  if (name == "bf16") return GgufType::bf16;
  if (name == "q8_0") return GgufType::q8_0;
  return name == "q4_0" ? GgufType::q4_0 : GgufType::q4_1;
}

// Runs a model on the first tokens of a text, an encoder-decoder on pairs of texts.
class Calibration {
 public:
  Calibration(const ConvertArguments& a, const LoadedModel& opened, const Globals& globals)
      : model_(opened.model()), globals_(globals) {
    const ModelTraits traits = traits_of(model_);
    if (!traits.reads_text()) {
      throw Error(opened.location() + ": expected a model of texts to calibrate, got " + model_.family() +
                  " (use --method rtn)");
    }
    const std::string text = valid_text(read_file(a.calibrate), a.calibrate, globals.quiet);
    const Tokenizer& tokenizer = opened.tokenizer();
    window_ = std::min(kCalibrationWindow, model_.max_positions().value_or(kCalibrationWindow));
    if (traits.is(ModelKind::encoder_decoder)) {
      add_pairs(tokenizer, text, a);
    } else if (traits.is(ModelKind::decoder)) {
      add_windows(tokenizer.encode(text).ids, a.tokens);
    } else {
      std::istringstream lines(text);
      const Truncation truncation{.max_length = window_};
      std::int64_t count = 0;
      for (std::string line; count < a.tokens && next_line(lines, line);) {
        const std::vector<std::int64_t> ids = tokenizer.encode_truncated(line, std::nullopt, truncation).ids;
        if (ids.empty()) continue;
        windows_.push_back({ids, {}});
        count += std::ssize(ids);
      }
    }
    if (windows_.empty()) throw Error(a.calibrate + ": expected a text of at least two tokens, got fewer");
  }

  void operator()() const {
    Progress progress(globals_.quiet);
    std::int64_t done = 0;
    for (const Window& window : windows_) {
      stop_if_asked();
      const ModelInput input{.ids = row_of(window.ids)};
      Context context;
      visit(
          model_, [&](const DecoderModel& decoder) { decoder.encode(input, context); },
          [&](const EncoderModel& encoder) { encoder.encode(input, context); },
          [&](const EncoderDecoderModel& both) { both.loss(input, row_of(window.target), {}, context); },
          [](const Model&) {});
      progress.show(++done, std::ssize(windows_), "windows");
    }
    progress.finish();
  }

 private:
  struct Window {
    std::vector<std::int64_t> ids, target;
  };

  static Tensor row_of(const std::vector<std::int64_t>& ids) {
    return Tensor::from(ids, {1, std::ssize(ids)});
  }

  // A source and a target a line; both count.
  void add_pairs(const Tokenizer& tokenizer, const std::string& text, const ConvertArguments& a) {
    std::istringstream lines(text);
    const Truncation truncation{.max_length = window_};
    std::int64_t count = 0, number = 1;
    for (std::string line; count < a.tokens && next_line(lines, line); ++number) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string::npos)
        throw Error(
            fmt::format("{}: line {}: expected a source, a tab and a target, got no tab (an "
                        "encoder-decoder is calibrated with pairs)",
                        a.calibrate, number));
      Window pair{tokenizer.encode_truncated(line.substr(0, tab), std::nullopt, truncation).ids,
                  tokenizer.encode_target(line.substr(tab + 1)).ids};
      if (std::ssize(pair.target) > window_) pair.target.resize(static_cast<std::size_t>(window_));
      if (pair.ids.empty() || pair.target.empty()) continue;
      count += std::ssize(pair.ids) + std::ssize(pair.target);
      windows_.push_back(std::move(pair));
    }
  }

  void add_windows(const std::vector<std::int64_t>& ids, std::int64_t most) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(ids), most);
    for (std::int64_t begin = 0; begin < count; begin += window_)
      windows_.push_back({{ids.begin() + begin, ids.begin() + std::min(begin + window_, count)}, {}});
  }

  const Model& model_;
  const Globals& globals_;
  std::int64_t window_ = 0;
  std::vector<Window> windows_;
};

std::string percent(double error) { return fmt::format("  {:6.2f}%", 100 * error); }

// What the model computes of --texts before it is converted.
class Comparison {
 public:
  Comparison(const ConvertArguments& a, const LoadedModel& model, const Globals& globals) {
    if (a.texts.empty()) return;
    texts_ = read_lines(a.texts, globals.quiet);
    if (texts_.empty()) throw Error(a.texts + ": expected texts, one a line, got none");
    before_.emplace(model, texts_);
  }
  bool asked() const { return before_.has_value(); }
  // After that.
  void see(const LoadedModel& model) {
    if (before_) after_.emplace(model, texts_);
  }
  // Of what was written.
  void see(const fs::path& directory) {
    if (before_) see(load(directory.string(), {.head = true}));
  }
  void write(JsonWriter& json) const {
    if (after_) before_->write_agreement(*after_, json.key("agreement"));
  }
  void print() const {
    if (after_) print_stdout("{}\n", before_->agreement_text(*after_));
  }

 private:
  std::vector<std::string> texts_;
  std::optional<TextResults> before_, after_;
};

void write_errors(JsonWriter& json, const QuantizeReport& report) {
  json.key("maps").begin_array();
  for (const QuantizedMap& map : report.maps) {
    json.begin_object().field("name", map.name).field("weight_error", map.weight_error);
    if (map.output_error) json.field("output_error", *map.output_error);
    json.end_object();
  }
  json.end_array().field("kept", report.kept);
}

// Each map's error with --verbose, else that of all.
void print_errors(const QuantizeReport& report, bool verbose) {
  const bool outputs = !report.maps.empty() && report.maps.front().output_error.has_value();
  std::size_t width = 0;
  for (const QuantizedMap& map : report.maps) width = std::max(width, map.name.size());
  if (!verbose) width += std::string_view("largest: ").size();
  print_stdout("{:<{}}  weights{}\n", "relative error of", width, outputs ? "  outputs" : "");
  double weights = 0, results = 0;
  const auto print_row = [&](const std::string& name, double error, const std::optional<double>& output) {
    print_stdout("{:<{}}{}{}\n", name, width, percent(error), output ? percent(*output) : "");
  };
  const QuantizedMap* worst = nullptr;
  for (const QuantizedMap& map : report.maps) {
    weights += map.weight_error;
    results += map.output_error.value_or(0);
    const auto error_of = [](const QuantizedMap& one) { return one.output_error.value_or(one.weight_error); };
    if (worst == nullptr || error_of(map) > error_of(*worst)) worst = &map;
    if (verbose) print_row(map.name, map.weight_error, map.output_error);
  }
  if (const auto count = static_cast<double>(report.maps.size()); count > 0)
    print_row(fmt::format("mean of {} maps", report.maps.size()), weights / count,
              outputs ? std::optional(results / count) : std::nullopt);
  if (verbose) {
    for (const std::string& name : report.kept) print_stdout("kept as it is: {}\n", name);
    return;
  }
  if (worst != nullptr) print_row("largest: " + worst->name, worst->weight_error, worst->output_error);
  if (!report.kept.empty())
    print_stdout("kept as they are: {} maps (--verbose lists all)\n", report.kept.size());
}

// Of weights that keep their type, only how the results of --texts agree.
void print_report(const QuantizeReport& report, const Comparison& comparison, const ConvertArguments& a,
                  const Globals& globals) {
  const bool rounded = writes_gguf(a) || a.bits != 0;
  if (!rounded && !comparison.asked()) return;
  if (globals.json) {
    JsonWriter json;
    json.begin_object();
    if (writes_gguf(a)) {
      json.field("type", a.type);
    } else if (a.bits != 0) {
      json.field("bits", a.bits).field("group", a.group).field("method", a.method);
    }
    if (rounded) write_errors(json, report);
    comparison.write(json);
    print_stdout("{}\n", json.end_object().text());
    return;
  }
  if (rounded && !(report.maps.empty() && report.kept.empty())) print_errors(report, globals.verbose);
  comparison.print();
}
// Options that say nothing about what is written.
void check_use(const ConvertArguments& a, const CLI::App& command) {
  const auto refuse = [&](std::initializer_list<const char*> options, const std::string& needed) {
    for (const char* option : options) {
      if (command.count(option) > 0) throw UsageError(std::string(option) + ": expected " + needed);
    }
  };
  if (a.models.size() > 1)
    refuse({"--adapter", "--dtype", "--bits", "--output-bits", "--group", "--type", "--method", "--calibrate",
            "--texts"},
           "one model, got several (write their mean first)");
  if (writes_gguf(a)) {
    refuse({"--bits", "--output-bits", "--group", "--method", "--calibrate", "--dtype"},
           "with a directory as --output only (a GGUF file has --type)");
    return;
  }
  refuse({"--type"}, "with --output FILE.gguf only (a directory has --bits and --group)");
  if (a.bits == 0) refuse({"--output-bits", "--group", "--method", "--calibrate"}, "with --bits 4 or 8");
  if (a.group < 32 || a.group % 32 != 0)
    throw UsageError("--group: expected a multiple of 32, got " + std::to_string(a.group));
}

void warn_of_second_rounding(const LoadedModel& model, const Globals& globals) {
  const std::vector<Parameter>& all = model.model().parameters();
  const bool quantized = std::any_of(all.begin(), all.end(),
                                     [](const Parameter& p) { return quantized_of(p.tensor) != nullptr; });
  if (quantized && !globals.quiet)
    warn(model.location() +
         ": its weights are quantized already, and are rounded a second time (start from the original where "
         "there is one)");
}

void write_mean(const ConvertArguments& a, const Globals& globals) {
  if (writes_gguf(a))
    throw UsageError("--output: expected a directory for the mean of models, got " + a.to.output.string());
  std::vector<fs::path> directories;
  for (const std::string& name : a.models) directories.push_back(path_of_model(name));
  {
    const Waiting waiting("averaging", globals.quiet);
    average_models(directories, a.to.output);
  }
  if (!globals.quiet) print_stderr("wrote " + a.to.output.string());
}

// What became of the files of the weights, and in which time.
void report_written(const ConvertArguments& a, const fs::path& from, Clock::time_point begun) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  print_stderr(fmt::format("wrote {}: {} of weights, from {}, in {:.1f} s", a.to.output.string(),
                           hub::size_text(bytes_of_weights(a.to.output)),
                           hub::size_text(bytes_of_weights(from)), seconds));
}

// Writes a GGUF file, and returns what it cost.
QuantizeReport write_gguf(const ConvertArguments& a, const LoadedModel& model, Comparison& comparison,
                          const Globals& globals) {
  const QuantizeReport report = [&] {
    const Waiting waiting("writing " + a.to.output.string(), globals.quiet);
    return model.model().save_gguf(a.to.output, gguf_type_named(a.type), model.location());
  }();
  comparison.see(a.to.output);
  return report;
}

// Writes a directory, and returns what its bits cost.
QuantizeReport write_directory(const ConvertArguments& a, const LoadedModel& model, Comparison& comparison,
                               const Globals& globals) {
  QuantizeReport report;
  if (a.bits != 0) {
    const QuantizeOptions options{.bits = a.bits,
                                  .group = a.group,
                                  .method = method_named(a),
                                  .scale_type = a.to.type(model),
                                  .output_bits = a.output_bits};
    std::optional<Calibration> calibration;
    std::optional<Waiting> waiting;
    if (options.method == QuantizeMethod::nearest) {
      waiting.emplace("quantizing", globals.quiet);
    } else {
      calibration.emplace(a, model, globals);
    }
    report = model.changeable_model().quantize(options, [&] { (*calibration)(); });
    comparison.see(model);
  }
  {
    const Waiting waiting("writing " + a.to.output.string(), globals.quiet);
    a.to.write(model);
  }
  if (a.bits == 0) comparison.see(a.to.output);
  return report;
}

void run(ConvertArguments a, const CLI::App& command, const Globals& globals) {
  check_use(a, command);
  if (a.models.size() > 1) return write_mean(a, globals);
  a.model.name = a.models.front();
  if (a.bits != 0) method_named(a);
  const bool gguf = writes_gguf(a);
  LoadOptions held = load_options(a.model);
  held.head = true;
  held.separate_output = a.output_bits > 0;
  std::vector<fs::path> adapters;
  if (const fs::path named = path_of_model(a.model.name); is_adapter(named)) adapters.push_back(named);
  for (const NamedAdapter& adapter : held.adapters) adapters.push_back(path_of_model(adapter.name));
  for (const fs::path& adapter : adapters) {
    std::error_code error;
    if (fs::equivalent(adapter, a.to.output, error))
      throw UsageError("--output: expected another folder than the adapter's, got " + a.to.output.string());
  }
  if (!gguf) a.to.check();
  stop_if_asked();
  const auto begun = Clock::now();
  const LoadedModel model = heed::open_model(a.model.name, held);
  warn_of_settings(model, globals);
  if (gguf || a.bits != 0) warn_of_second_rounding(model, globals);
  model.changeable_model().merge_adapters();
  Comparison comparison(a, model, globals);
  const QuantizeReport report =
      gguf ? write_gguf(a, model, comparison, globals) : write_directory(a, model, comparison, globals);
  if (!globals.quiet) report_written(a, model.location(), begun);
  print_report(report, comparison, a, globals);
}

CLI::Option* accept_bits(CLI::Option* option) {
  return option->check([](const std::string& text) {
    return text == "4" || text == "8" ? "" : "expected 4 or 8, got " + text;
  });
}

}  // namespace

void add_convert(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "convert", "Write a model in another form: type, bits, GGUF, adapters merged, or the mean of several");
  auto a = std::make_shared<ConvertArguments>();
  OptionGroup output(*command, "Output"), codes(*command, "Bits");
  add_models_argument(*command, a->models, "A model (heed help models), or several, whose mean is written")
      ->required();
  add_adapter_option(*command, a->model);
  a->to.add_options(*command, "Directory to write the model to, or FILE.gguf for llama.cpp", "PATH");
  output.value(
      "--texts", a->texts, "FILE",
      "Texts, one a line: print how their vectors (and labels) agree with those of the model before");
  accept_bits(codes.value("--bits", a->bits, "4|8", "Bits for each number of the linear maps"));
  accept_bits(codes.value("--output-bits", a->output_bits, "4|8",
                          "Bits of the output map too, which is written apart from the table of tokens"));
  codes.value("--group", a->group, "N", "Numbers of a row that share a scale: a multiple of 32")
      ->capture_default_str();
  codes.word(
      "--method", a->method, {"rtn", "gptq", "awq"},
      "rtn: each number to the nearest code; gptq: such that the results for --calibrate change least; "
      "awq: the same by scaling what the maps read");
  codes.value("--calibrate", a->calibrate, "FILE",
              "A text like those that the model will read (gptq, awq); for an encoder-decoder, a source, "
              "a tab and a target a line");
  codes.count("--calibrate-tokens", a->tokens, 1, "How many tokens of it to use");
  codes.word("--type", a->type, {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"},
             "Of a GGUF file: plain numbers, or blocks of 8 bits, 4 bits, or 4 bits with an offset");
  command->footer(
      "Of several models, such as checkpoints of a run, the mean is written. A directory with --bits is\n"
      "compressed-tensors (pack-quantized), which transformers and vLLM read; the tables of tokens and the\n"
      "heads of encoders keep their type, and so does the output map without --output-bits. GGUF files are\n"
      "for decoders like LLaMA, with their tokenizer. heed evaluate --texts tells what bits cost.\n\n"
      "Examples:\n"
      "  heed convert gpt2 --dtype bf16 --output gpt2-half\n"
      "  heed convert gpt2 --adapter runs/poems=0.7 --adapter runs/verse=0.3 --output gpt2-mixed\n"
      "  heed convert runs/en-fr/checkpoints/9000 runs/en-fr/checkpoints/10000 --output averaged\n"
      "  heed convert SmolLM2-135M --bits 4 --output smol-4bit\n"
      "  heed convert SmolLM2-135M --bits 4 --method gptq --calibrate wiki.txt --output smol-gptq\n"
      "  heed convert opus-mt-en-de --bits 8 --output-bits 8 --output en-de-8bit\n"
      "  heed convert SmolLM2-135M --type q8_0 --output smol-q8_0.gguf");
  command->callback([a, command, &globals] { run(*a, *command, globals); });
}

}  // namespace heed::cli
