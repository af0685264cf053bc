// Layer normalization (Ba, Kiros and Hinton 2016) and root-mean-square normalization (Zhang and Sennrich
// 2019) over the last axis, forward and backward. The forward may first add a residual, which saves a pass
// over memory; the gradients of weights are summed over fixed chunks of rows, the same for any number of
// threads.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Arguments of both norms. Null marks what is optional.
template <class T>
struct Norm {
  std::int64_t rows = 0;
  std::int64_t d = 0;
  double eps = 1e-5;
  const T* x = nullptr;         // [rows, d]
  const T* residual = nullptr;  // [rows, d], optional: s = x + residual is normalized instead of x
  const T* weight = nullptr;    // [d], optional (1)
  const T* bias = nullptr;      // [d], optional (0)
  T* y = nullptr;               // [rows, d]
  T* sum = nullptr;             // [rows, d], s; required with residual. May be x or residual
  T* mean = nullptr;            // [rows], of layer_norm, optional (backward needs it)
  T* rstd = nullptr;            // [rows], optional (backward needs it)
};
/// y = (s - mean(s)) * rstd * weight + bias, rstd = 1 / sqrt(mean((s - mean)^2) + eps).
template <class T>
void layer_norm(const Norm<T>& args);
/// y = s * rstd * weight + bias, rstd = 1 / sqrt(mean(s^2) + eps).
template <class T>
void rms_norm(const Norm<T>& args);

/// Arguments of the backward pass of both. Null marks what is optional.
template <class T>
struct NormBackward {
  std::int64_t rows = 0;
  std::int64_t d = 0;
  const T* x = nullptr;       // [rows, d], what was normalized (the sum, if there was a residual)
  const T* weight = nullptr;  // [d], optional
  const T* mean = nullptr;    // [rows], of layer_norm; null for rms_norm
  const T* rstd = nullptr;    // [rows]
  const T* dy = nullptr;      // [rows, d]
  const T* dsum = nullptr;    // [rows, d], optional: gradient that reaches s by another way; added to dx
  T* dx = nullptr;            // [rows, d], optional. May be dy or dsum. Also the gradient of the residual
  T* dweight = nullptr;       // [d], optional, overwritten
  T* dbias = nullptr;         // [d], optional, overwritten
};
template <class T>
void norm_backward(const NormBackward<T>& args);

}  // namespace heed::kernels
