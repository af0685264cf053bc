// Softmax and its logarithm over the last axis. A row that is -inf throughout has softmax 0 and log-softmax
// -inf, and gradient 0: it is a row whose keys are all masked.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// y[r, i] = exp(x[r, i] - max_r) / sum_j exp(x[r, j] - max_r); x, y: [rows, n]. y may be x.
template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t n);
/// dx = y * (dy - sum_j y[r, j] dy[r, j]). dx may be dy.
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n);

/// y[r, i] = x[r, i] - logsumexp_j x[r, j]. y may be x.
template <class T>
void log_softmax(const T* x, T* y, std::int64_t rows, std::int64_t n);
/// dx = dy - exp(y) * sum_j dy[r, j]. dx may be dy.
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n);

}  // namespace heed::kernels
