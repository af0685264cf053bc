// Shared by the kinds of `heed bench`: the work, its measurement against the limits of the machine, and the
// report.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/cli.h"
#include "heed/dtype.h"
#include "heed/shape.h"
#include "heed/tensor.h"

namespace heed::cli {

/// Options of every kind.
struct BenchOptions {
  double seconds = 2;        // repeat the work for about this long,
  std::int64_t repeats = 0;  // or this many times, if > 0
};
void add_bench_options(CLI::App& command, BenchOptions& options);

/// Returns a dtype by its name. Throws UsageError if it is not a floating-point type.
DType bench_dtype(const std::string& name);

/// The work that is repeated and timed, and the minimum of one repeat: operations, and bytes to be moved.
struct BenchWork {
  std::string kind;  // "attention"
  std::vector<std::pair<std::string, std::variant<std::int64_t, bool, std::string>>> shape;
  DType arithmetic = DType::f32;  // f32 or f64: selects the limit to compare with
  double operations = 0;
  double bytes = 0;
  std::function<void(std::int64_t repeat)> run;
  std::function<void()> backward = {};                     // timed separately after each run
  double backward_operations = 0;                          // included in `operations`
  std::vector<std::pair<std::string, double>> items = {};  // {"tokens", 256}: reported per second
};

/// The measurements. Of the limits, the best is kept; of the work's times, all are.
struct BenchResult {
  std::vector<double> seconds;           // of run and backward together
  std::vector<double> backward_seconds;  // of backward
  double operations_per_second = 0;      // limit of the machine, like the next members
  double bytes_per_second = 0;
  std::int64_t peak_memory = 0;    // peak of the process in bytes, during the first run
  std::int64_t memory_growth = 0;  // how much peak_memory exceeds the memory in use before the run
};

/// Runs the work once to warm up, then repeatedly. Measures the limits before, between and after.
BenchResult measure(const BenchWork& work, const BenchOptions& options);

double median(std::vector<double> values);

/// Runs measure() and prints the report.
void bench(const BenchWork& work, const BenchOptions& options, const Globals& globals);

/// Returns numbers from a normal distribution with standard deviation 1.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream);
/// Returns how many copies of a repeat's operands to use in turn. In a model, its other weights are read
/// between two uses of one weight; memory-bound work must therefore not find its operands in a cache.
std::int64_t operand_copies(double operations, double bytes);

/// An option of the group "Shape": a whole number from `least` on.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& value,
                      const std::string& text, std::int64_t least = 1);

void add_bench_attention(CLI::App& bench, const Globals& globals);
void add_bench_lengths(CLI::App& bench, const Globals& globals);
void add_bench_recurrent(CLI::App& bench, const Globals& globals);
void add_bench_gemm(CLI::App& bench, const Globals& globals);
void add_bench_models(CLI::App& bench, const Globals& globals);

}  // namespace heed::cli
