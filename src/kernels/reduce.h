// Reductions. Sums accumulate in double, so that in float the rounding error does not grow with the length,
// and are cut into chunks by their length alone: any number of threads gives the same bits.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// The axis n of x [outer, n, inner].
struct Axis {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;
};

/// y[outer, inner] = sum of x[outer, n, inner] over n. An empty sum is 0.
template <class T>
void sum(const T* x, T* y, const Axis& axis);
/// y[outer, inner] = max of x[outer, n, inner] over n; arg its first index. A NaN wins. An empty maximum is
/// -inf at index 0.
template <class T>
void max(const T* x, T* y, std::int64_t* arg, const Axis& axis);
/// dx[outer, arg, inner] = dy[outer, inner], `arg` as max gave it; the rest of dx [outer, n, inner] stays.
template <class T>
void max_backward(const T* dy, const std::int64_t* arg, T* dx, const Axis& axis);

/// index[rows, k]: the places of the k largest of each row of x [rows, n], the largest first, of equal ones
/// the first; k <= n.
template <class T>
void top_k(const T* x, std::int64_t* index, std::int64_t rows, std::int64_t n, std::int64_t k);

/// The sum of x[i]^2, in double throughout.
template <class T>
double sum_of_squares(const T* x, std::int64_t n);
/// Whether no element is infinite or NaN.
template <class T>
bool all_finite(const T* x, std::int64_t n);

// From the vectors of a text's tokens to one vector: weighted sums, and rows of unit length. Sums are in
// double and in order, so that the result depends on the rows alone.

/// y[j] = (sum over t of weights[t] x[t, j]) / divisor, for x [rows, n].
void weighted_mean(const float* x, const double* weights, double divisor, std::int64_t rows, std::int64_t n,
                   float* y);

/// The gradient dx [rows, n] of dy [n].
void weighted_mean_backward(const float* dy, const double* weights, double divisor, std::int64_t rows,
                            std::int64_t n, float* dx);

/// Each row of y is that of x, [rows, n], divided by the larger of its Euclidean norm and `least`: rows of
/// zeros stay zeros. y may be x.
void normalize_rows(const float* x, double least, std::int64_t rows, std::int64_t n, float* y);
/// Of a row of norm |x| > least: dx = (dy - y (y . dy)) / |x|; else dx = dy / least.
void normalize_rows_backward(const float* x, const float* dy, double least, std::int64_t rows, std::int64_t n,
                             float* dx);

}  // namespace heed::kernels
