// Seconds of a sum over processes by its bytes: what docs/scaling.md fits its latency and bandwidth to.
//   mpirun -n N build/release/bench_process_sums
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "heed/error.h"
#include "mpi/processes.h"

namespace {

double seconds_of_sum(heed::Communicator& world, std::size_t count) {
  std::vector<float> values(count, 1.0F);
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    world.start_sum({values, nullptr})->wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  try {
    const auto world = heed::mpi::join_processes(heed::current_launch(), "bench");
    if (world->is_first()) std::printf("processes bytes seconds\n");
    for (std::size_t bytes = 1 << 12; bytes <= std::size_t{1} << 26; bytes *= 4) {
      const double seconds = seconds_of_sum(*world, bytes / sizeof(float));
      if (world->is_first()) std::printf("%d %zu %.6f\n", world->size(), bytes, seconds);
    }
    return 0;
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
