// Work that is repeated and timed, and what is measured of it: times, memory, and the limits of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heed/dtype.h"
#include "heed/tensor.h"

namespace heed::bench {

/// How often work is repeated.
struct Repeats {
  double seconds = 2;      // for about this long,
  std::int64_t count = 0;  // or this many times, if > 0
};

/// The work that is repeated and timed, and the minimum of one repeat: operations, and bytes to be moved.
struct Work {
  std::string kind;  // "attention"
  std::vector<std::pair<std::string, std::variant<std::int64_t, bool, std::string>>> shape;
  DType arithmetic = DType::f32;  // f32 or f64: selects the limit to compare with
  bool int8 = false;              // most operations are products of bytes: their limit instead
  double operations = 0;
  double bytes = 0;
  std::function<void(std::int64_t repeat)> run;
  std::function<void()> backward = {};                     // timed separately after each run
  double backward_operations = 0;                          // included in `operations`
  std::vector<std::pair<std::string, double>> items = {};  // {"tokens", 256}: reported per second
};

/// The measurements. Of the limits, the best is kept; of the work's times, all are.
struct Measurement {
  std::vector<double> seconds;           // of run and backward together
  std::vector<double> backward_seconds;  // of backward
  double operations_per_second = 0;      // limit of the machine, like the next member
  double bytes_per_second = 0;
  std::int64_t peak_memory = 0;    // peak of the process in bytes, during the first run
  std::int64_t memory_growth = 0;  // how much peak_memory exceeds the memory in use before the run
};

/// Runs the work once to warm up, then repeatedly. Measures the limits before, between and after.
Measurement measure(const Work& work, const Repeats& repeats);

/// The median time of run and backward together, without the machine's limits; of 3 repeats or more if only
/// the seconds are given.
double median_seconds(const Work& work, const Repeats& repeats);

double median(std::vector<double> values);

/// The speed, and the fraction of the machine's limit that is reached: the minimum time for the operations or
/// for the bytes, whichever is longer, divided by the measured time.
struct Speed {
  Speed(const Work& work, const Measurement& measured);
  double seconds, gflops, gbps, peak_gflops, peak_gbps, fraction;
  const char* bound;  // "arithmetic" or "bandwidth"
};

/// Returns numbers from a normal distribution with standard deviation 1.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream);
/// Returns how many copies of a repeat's operands to use in turn. In a model, its other weights are read
/// between two uses of one weight; memory-bound work must therefore not find its operands in a cache.
std::int64_t operand_copies(double operations, double bytes);

}  // namespace heed::bench
