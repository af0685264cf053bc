// The only file of heed that knows OpenMP.
#include "heed/threads.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <string>

#include "heed/error.h"

namespace heed {

int threads() { return omp_get_max_threads(); }

void set_threads(int count) {
  if (count < 1) throw Error("threads: expected at least 1, got " + std::to_string(count));
  omp_set_num_threads(count);
}

std::int64_t range_count(std::int64_t count, std::int64_t grain) {
  if (count <= 0) return 0;
  if (omp_in_parallel()) return 1;
  return std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads());
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  parallel_for_ranges(count, grain,
                      [&](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

void parallel_for_ranges(std::int64_t count, std::int64_t grain,
                         FunctionRef<void(std::int64_t range, std::int64_t begin, std::int64_t end)> body) {
  const std::int64_t pieces = range_count(count, grain);
  if (pieces == 0) return;
  if (pieces == 1) {
    body(0, 0, count);
    return;
  }
  const int team = static_cast<int>(pieces);
  std::exception_ptr failure;  // an exception must not leave a parallel region
#pragma omp parallel for num_threads(team) schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    try {
      body(piece, count * piece / pieces, count * (piece + 1) / pieces);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace heed
