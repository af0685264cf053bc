// Pooling, in plain loops: it reads each number once, after a model that computed with it thousands of times.
#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/threads.h"

namespace heed::kernels {

void weighted_mean(const float* x, const double* weights, double divisor, std::int64_t rows, std::int64_t n,
                   float* y) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t j = 0; j < n; ++j)
      sums[static_cast<std::size_t>(j)] += weights[t] * static_cast<double>(x[t * n + j]);
  }
  for (std::int64_t j = 0; j < n; ++j) y[j] = static_cast<float>(sums[static_cast<std::size_t>(j)] / divisor);
}

void normalize_rows(const float* x, double least, std::int64_t rows, std::int64_t n, float* y) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(n, 1));
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n;
      double squares = 0;
      for (std::int64_t j = 0; j < n; ++j)
        squares += static_cast<double>(from[j]) * static_cast<double>(from[j]);
      const double length = std::max(std::sqrt(squares), least);
      for (std::int64_t j = 0; j < n; ++j)
        y[row * n + j] = static_cast<float>(static_cast<double>(from[j]) / length);
    }
  });
}

}  // namespace heed::kernels
