// Measures work together with the machine's limits. Clock rates change with temperature and other load, so
// the limits are measured in the same run as the work: before, between and after its repeats.
#include "bench/measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "heed/random.h"
#include "heed/threads.h"
#include "kernels/machine.h"

namespace heed::bench {
namespace {

constexpr double kProbeSeconds = 0.02;
constexpr std::int64_t kRounds = 3;  // of repeats, with the limits measured before and after each
constexpr std::int64_t kMegabyte = 1 << 20;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns a line of /proc/self/status, which is in kB, in bytes; 0 if it does not exist.
std::int64_t process_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

/// Resets the process's peak memory to its current use, if the system allows it.
void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// Returns twice the size of the caches, but at most a quarter of the memory.
std::int64_t larger_than_caches() {
  const std::int64_t caches = std::max({sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE),
                                        sysconf(_SC_LEVEL4_CACHE_SIZE), long{64 * kMegabyte}});
  const std::int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return std::clamp<std::int64_t>(2 * caches, kMegabyte, memory / 4);
}

/// Memory to read, in the largest pages that the system provides, so that TLB misses cost little.
class ReadProbe {
 public:
  ReadProbe() : bytes_(larger_than_caches()) {
    data_ = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, size(), MADV_HUGEPAGE);
    parallel_for(bytes_, kMegabyte, [&](std::int64_t begin, std::int64_t end) {
      std::fill(static_cast<char*>(data_) + begin, static_cast<char*>(data_) + end, 1);
    });
  }
  ~ReadProbe() { munmap(data_, size()); }
  ReadProbe(const ReadProbe&) = delete;
  ReadProbe& operator=(const ReadProbe&) = delete;
  double rate() const { return kernels::read_rate(data_, bytes_); }

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes_); }
  std::int64_t bytes_;
  void* data_;
};

void measure_limits(const Work& work, const ReadProbe& probe, Measurement& result) {
  const bool int8 = work.int8 && std::string(kernels::int8_instruction()) != "none";
  const double arithmetic = int8                            ? kernels::int8_rate(kProbeSeconds)
                            : work.arithmetic == DType::f64 ? kernels::arithmetic_rate<double>(kProbeSeconds)
                                                            : kernels::arithmetic_rate<float>(kProbeSeconds);
  result.operations_per_second = std::max(result.operations_per_second, arithmetic);
  result.bytes_per_second = std::max(result.bytes_per_second, probe.rate());
}

void run_once(const Work& work, std::int64_t repeat, Measurement& result) {
  const double start = seconds_now();
  work.run(repeat);
  const double middle = seconds_now();
  if (work.backward) {
    work.backward();
    result.backward_seconds.push_back(seconds_now() - middle);
  }
  result.seconds.push_back(seconds_now() - start);
}

}  // namespace

std::int64_t operand_copies(double operations, double bytes) {
  constexpr double kIntensity = 16;  // operations per byte; above it, no processor is memory-bound
  if (operations > kIntensity * bytes) return 1;
  constexpr double kMost = 255;  // for smaller operands, the call itself would dominate
  return 1 + static_cast<std::int64_t>(std::min(kMost, static_cast<double>(larger_than_caches()) / bytes));
}

Measurement measure(const Work& work, const Repeats& repeats) {
  Measurement result;
  forget_peak_memory();
  const std::int64_t before = process_status("VmRSS");
  run_once(work, 0, result);
  result.peak_memory = process_status("VmHWM");
  result.memory_growth = std::max<std::int64_t>(0, result.peak_memory - before);
  result.seconds.clear();
  result.backward_seconds.clear();
  const ReadProbe probe;
  for (std::int64_t round = 1, repeat = 0; round <= kRounds; ++round) {
    measure_limits(work, probe, result);
    const double end = seconds_now() + repeats.seconds / kRounds;
    const auto done = [&] {
      if (repeats.count > 0) return repeat * kRounds >= repeats.count * round;
      return repeat >= round && seconds_now() >= end;
    };
    while (!done()) run_once(work, ++repeat, result);
  }
  measure_limits(work, probe, result);
  return result;
}

double median_seconds(const Work& work, const Repeats& repeats) {
  std::vector<double> seconds;
  double sum = 0;
  const auto wanted = repeats.count > 0 ? repeats.count : std::int64_t{3};
  while (std::ssize(seconds) < wanted || (repeats.count == 0 && sum < repeats.seconds)) {
    const double start = seconds_now();
    work.run(std::ssize(seconds));
    if (work.backward) work.backward();
    seconds.push_back(seconds_now() - start);
    sum += seconds.back();
  }
  return median(seconds);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Speed::Speed(const Work& work, const Measurement& measured)
    : seconds(median(measured.seconds)),
      gflops(work.operations / seconds / 1e9),
      gbps(work.bytes / seconds / 1e9),
      peak_gflops(measured.operations_per_second / 1e9),
      peak_gbps(measured.bytes_per_second / 1e9),
      fraction(std::max(gflops / peak_gflops, gbps / peak_gbps)),
      bound(gflops / peak_gflops >= gbps / peak_gbps ? "arithmetic" : "bandwidth") {}

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t stream) {
  const RandomStream random{7, stream};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return Tensor::from(values, shape).to(dtype);
}

}  // namespace heed::bench
