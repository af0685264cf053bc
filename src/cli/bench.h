// What the kinds of `heed bench` share: a piece of work, its measurement beside the limits of the machine,
// and the report.
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
  double seconds = 2;        // the work is repeated for about so long,
  std::int64_t repeats = 0;  // or so many times, if > 0
};
void add_bench_options(CLI::App& command, BenchOptions& options);

/// A dtype by its name. Throws UsageError for one that is not floating.
DType bench_dtype(const std::string& name);

/// What is repeated and timed, and what one repeat must do at least: operations, and bytes to be moved.
struct BenchWork {
  std::string kind;  // "attention"
  std::vector<std::pair<std::string, std::variant<std::int64_t, bool, std::string>>> shape;
  DType arithmetic = DType::f32;  // f32 or f64: whose limit to compare with
  double operations = 0;
  double bytes = 0;
  std::function<void(std::int64_t repeat)> run;
  std::function<void()> backward = {};                     // timed apart after each run; its operations count
  double backward_operations = 0;                          // among `operations`
  std::vector<std::pair<std::string, double>> items = {};  // {"tokens", 256}: reported per second
};

/// What was measured. Of the limits the best is taken, of the work's times all are kept.
struct BenchResult {
  std::vector<double> seconds;           // of run and backward together
  std::vector<double> backward_seconds;  // of backward
  double operations_per_second = 0;      // limits
  double bytes_per_second = 0;
  std::int64_t peak_memory = 0;    // bytes of the process at most, during the first run
  std::int64_t memory_growth = 0;  // by how much that is more than before it
};

/// Runs the work once to warm up, then repeatedly, with the limits measured before, between and after.
BenchResult measure(const BenchWork& work, const BenchOptions& options);

/// measure, and print the report.
void bench(const BenchWork& work, const BenchOptions& options, const Globals& globals);

/// Numbers of a normal distribution, deviation 1.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream);
/// How many copies of a repeat's operands to take in turn: as in a model, whose other weights pass between
/// two uses of one, what is bound by memory shall not find its operands in a cache.
std::int64_t operand_copies(double operations, double bytes);

void add_bench_attention(CLI::App& bench, const Globals& globals);
void add_bench_gemm(CLI::App& bench, const Globals& globals);
void add_bench_models(CLI::App& bench, const Globals& globals);

}  // namespace heed::cli
