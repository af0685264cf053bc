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

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  if (count <= 0) return;
  const std::int64_t pieces = std::min<std::int64_t>(threads(), count / std::max<std::int64_t>(grain, 1));
  if (pieces <= 1 || omp_in_parallel()) {
    body(0, count);
    return;
  }
  const int team = static_cast<int>(pieces);
  std::exception_ptr failure;  // an exception must not leave a parallel region
#pragma omp parallel for num_threads(team) schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    try {
      body(count * piece / pieces, count * (piece + 1) / pieces);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace heed
