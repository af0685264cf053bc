// From the vectors of a text's tokens to one vector: weighted sums, and rows of unit length. Sums are in
// double and in order, so that the result depends on the rows alone.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// y[j] = (sum over t of weights[t] x[t, j]) / divisor, for x [rows, n].
void weighted_mean(const float* x, const double* weights, double divisor, std::int64_t rows, std::int64_t n,
                   float* y);

/// Each row of y is that of x, [rows, n], divided by the larger of its Euclidean norm and `least`: rows of
/// zeros stay zeros. y may be x.
void normalize_rows(const float* x, double least, std::int64_t rows, std::int64_t n, float* y);

}  // namespace heed::kernels
