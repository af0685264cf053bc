// heed bench: measures how fast attention, matrix products and whole models run, compared with the limits of
// the machine.
#include "cli/bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/option_values.h"
#include "heed/io/json.h"
#include "heed/threads.h"

namespace heed::cli {
namespace {

/// The fraction of the machine's limit that is reached: the minimum time for the operations or for the bytes,
/// whichever is longer, divided by the measured time.
struct Speed {
  Speed(const BenchWork& work, const BenchResult& result)
      : seconds(median(result.seconds)),
        gflops(work.operations / seconds / 1e9),
        gbps(work.bytes / seconds / 1e9),
        peak_gflops(result.operations_per_second / 1e9),
        peak_gbps(result.bytes_per_second / 1e9),
        fraction(std::max(gflops / peak_gflops, gbps / peak_gbps)),
        bound(gflops / peak_gflops >= gbps / peak_gbps ? "arithmetic" : "bandwidth") {}
  double seconds, gflops, gbps, peak_gflops, peak_gbps, fraction;
  const char* bound;
};

std::string per_second(const std::string& item) { return item + "_per_s"; }

void print_json(const BenchWork& work, const BenchResult& result, const Speed& speed) {
  const auto [least, most] = std::minmax_element(result.seconds.begin(), result.seconds.end());
  JsonWriter json;
  json.begin_object()
      .field("bench", work.kind)
      .field("median_s", speed.seconds)
      .field("min_s", *least)
      .field("max_s", *most)
      .field("repeats", result.seconds.size())
      .field("threads", threads())
      .field("gflops", speed.gflops)
      .field("gbps", speed.gbps)
      .field("peak_gflops", speed.peak_gflops)
      .field("peak_gbps", speed.peak_gbps)
      .field("fraction", speed.fraction)
      .field("bound", speed.bound);
  if (work.backward) {
    const double backward = median(result.backward_seconds);
    const double gflops = work.backward_operations / backward / 1e9;
    json.field("backward_median_s", backward)
        .field("backward_gflops", gflops)
        .field("backward_fraction", gflops / speed.peak_gflops);
  }
  for (const auto& [item, count] : work.items) json.field(per_second(item), count / speed.seconds);
  json.field("peak_memory_bytes", result.peak_memory).field("memory_growth_bytes", result.memory_growth);
  json.key("shape").begin_object();
  for (const auto& entry : work.shape) {
    json.key(entry.first);
    std::visit([&](const auto& value) { json.value(value); }, entry.second);
  }
  fmt::print("{}\n", json.end_object().end_object().text());
}

std::string shape_text(const BenchWork& work) {
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

void print_text(const BenchWork& work, const BenchResult& result, const Speed& speed) {
  const auto [least, most] = std::minmax_element(result.seconds.begin(), result.seconds.end());
  fmt::print("{}{}\n\n", work.kind, shape_text(work));
  fmt::print("time        {:.4g} ms  ({:.4g} to {:.4g} ms in {} repeats, {} threads)\n", 1e3 * speed.seconds,
             1e3 * *least, 1e3 * *most, result.seconds.size(), threads());
  for (const auto& [item, count] : work.items)
    fmt::print("{:<12}{:.5g} per second\n", item, count / speed.seconds);
  fmt::print("arithmetic  {:.4g} of {:.4g} Gflop/s\n", speed.gflops, speed.peak_gflops);
  fmt::print("memory      {:.4g} of {:.4g} GB/s\n", speed.gbps, speed.peak_gbps);
  fmt::print("limit       {:.1f} % of {}\n", 100 * speed.fraction, speed.bound);
  if (work.backward) {
    const double backward = median(result.backward_seconds);
    fmt::print("backward    {:.4g} ms, {:.1f} % of arithmetic\n", 1e3 * backward,
               100 * work.backward_operations / backward / 1e9 / speed.peak_gflops);
  }
  fmt::print("peak        {:.1f} MB, {:.1f} MB above the start\n",
             static_cast<double>(result.peak_memory) / 1e6, static_cast<double>(result.memory_growth) / 1e6);
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void add_bench_options(CLI::App& command, BenchOptions& options) {
  command.add_option("--seconds", options.seconds, "Repeat for about this many seconds")
      ->check(positive_number())
      ->capture_default_str()
      ->type_name("X")
      ->group("Measurement");
  command.add_option("--repeats", options.repeats, "Repeat this many times instead")
      ->transform(whole_number(1))
      ->type_name("N")
      ->group("Measurement");
}

DType bench_dtype(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw UsageError("--dtype: expected f32, bf16, f16 or f64, got " + name);
}

void bench(const BenchWork& work, const BenchOptions& options, const Globals& globals) {
  const BenchResult result = measure(work, options);
  const Speed speed(work, result);
  if (globals.json) {
    print_json(work, result, speed);
  } else {
    print_text(work, result, speed);
  }
}

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
      "  heed bench attention --heads 12 --head-dim 64 --length 4096 --causal\n"
      "  heed bench lengths --output costs\n"
      "  heed bench gemm --m 512 --n 3072 --k 768 --json\n"
      "  heed bench encode --shape bert-base --batch 8 --length 128\n"
      "  heed bench generate --shape gpt2 --dtype bf16\n"
      "  heed bench translate --model en-fr --num-beams 4\n"
      "  heed bench train --config config.json --batch 4 --length 256");
}

}  // namespace heed::cli
