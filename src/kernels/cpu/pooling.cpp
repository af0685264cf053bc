// Pooling, in plain loops: it reads each number once, after a model that computed with it thousands of times.
#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/threads.h"

namespace heed::kernels {
namespace {

std::int64_t grain_of(std::int64_t n) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(n, 1));
}

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  return sum;
}

}  // namespace

void weighted_mean(const float* x, const double* weights, double divisor, std::int64_t rows, std::int64_t n,
                   float* y) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t j = 0; j < n; ++j)
      sums[static_cast<std::size_t>(j)] += weights[t] * static_cast<double>(x[t * n + j]);
  }
  for (std::int64_t j = 0; j < n; ++j) y[j] = static_cast<float>(sums[static_cast<std::size_t>(j)] / divisor);
}

void weighted_mean_backward(const float* dy, const double* weights, double divisor, std::int64_t rows,
                            std::int64_t n, float* dx) {
  for (std::int64_t t = 0; t < rows; ++t) {
    const double share = weights[t] / divisor;
    for (std::int64_t j = 0; j < n; ++j)
      dx[t * n + j] = static_cast<float>(share * static_cast<double>(dy[j]));
  }
}

void normalize_rows(const float* x, double least, std::int64_t rows, std::int64_t n, float* y) {
  parallel_for(rows, grain_of(n), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = x + row * n;
      const double length = std::max(std::sqrt(dot(from, from, n)), least);
      for (std::int64_t j = 0; j < n; ++j)
        y[row * n + j] = static_cast<float>(static_cast<double>(from[j]) / length);
    }
  });
}

void normalize_rows_backward(const float* x, const float* dy, double least, std::int64_t rows, std::int64_t n,
                             float* dx) {
  parallel_for(rows, grain_of(n), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float *from = x + row * n, *gradient = dy + row * n;
      const double norm = std::sqrt(dot(from, from, n)), length = std::max(norm, least);
      const double along = norm > least ? dot(from, gradient, n) / (norm * norm) : 0;
      for (std::int64_t j = 0; j < n; ++j)
        dx[row * n + j] = static_cast<float>(
            (static_cast<double>(gradient[j]) - along * static_cast<double>(from[j])) / length);
    }
  });
}

}  // namespace heed::kernels
