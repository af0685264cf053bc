// Element-wise mathematics on contiguous arrays, and the four arithmetic operations with broadcasting.
// T is float or double. The output may be one of the inputs; otherwise arrays must not overlap. Float results
// are within 4e-7 relative of the exact value, double ones within 1e-14, save where a function's comment says
// more and where a result is near the smallest normal number.
#pragma once

#include <array>
#include <cstdint>

#include "heed/kernels/activation.h"
#include "heed/random.h"

namespace heed::kernels {

inline constexpr int kMaxRank = 8;

/// How two operands stretch to one contiguous row-major result: sizes of the result, and the step in elements
/// that each operand takes along each of its axes (0 where the operand is repeated).
struct Broadcast {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> strides_a{};
  std::array<std::int64_t, kMaxRank> strides_b{};
};

/// y[i] = a[i] op b[i].
template <class T>
void add(const T* a, const T* b, T* y, std::int64_t n);
template <class T>
void sub(const T* a, const T* b, T* y, std::int64_t n);
template <class T>
void mul(const T* a, const T* b, T* y, std::int64_t n);
template <class T>
void div(const T* a, const T* b, T* y, std::int64_t n);

/// y[i...] = a[i . strides_a] op b[i . strides_b], y contiguous with `shape.sizes`. y may be an operand only
/// if that operand is contiguous with the same sizes.
template <class T>
void add(const T* a, const T* b, T* y, const Broadcast& shape);
template <class T>
void sub(const T* a, const T* b, T* y, const Broadcast& shape);
template <class T>
void mul(const T* a, const T* b, T* y, const Broadcast& shape);
template <class T>
void div(const T* a, const T* b, T* y, const Broadcast& shape);

/// y[i] = a[i] * s.
template <class T>
void scale(const T* a, T s, T* y, std::int64_t n);
/// y[i] = a[i] + s.
template <class T>
void add_scalar(const T* a, T s, T* y, std::int64_t n);
/// y[i] += alpha * x[i].
template <class T>
void axpy(T alpha, const T* x, T* y, std::int64_t n);

/// y[i] = f(x[i]).
template <class T>
void neg(const T* x, T* y, std::int64_t n);
template <class T>
void abs(const T* x, T* y, std::int64_t n);
template <class T>
void exp(const T* x, T* y, std::int64_t n);
template <class T>
void log(const T* x, T* y, std::int64_t n);
template <class T>
void sqrt(const T* x, T* y, std::int64_t n);
template <class T>
void rsqrt(const T* x, T* y, std::int64_t n);
/// 1 / (1 + exp(-x)).
template <class T>
void sigmoid(const T* x, T* y, std::int64_t n);
template <class T>
void tanh(const T* x, T* y, std::int64_t n);
/// max(x, 0); NaN stays NaN.
template <class T>
void relu(const T* x, T* y, std::int64_t n);
/// x * Phi(x), Phi the standard normal distribution (Hendrycks and Gimpel 2016, "Gaussian Error Linear
/// Units"). In double the relative error of the lower tail grows as x^2.
template <class T>
void gelu(const T* x, T* y, std::int64_t n);
/// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the same paper's approximation. Where the result is a
/// vanishing tail (x < -4), its relative error in float grows with the exponent, to about 1e-5.
template <class T>
void gelu_tanh(const T* x, T* y, std::int64_t n);
/// x * sigmoid(x).
template <class T>
void silu(const T* x, T* y, std::int64_t n);
/// x * sigmoid(1.702 x). Tails as those of gelu_tanh.
template <class T>
void quick_gelu(const T* x, T* y, std::int64_t n);
/// gelu(x), at most 10.
template <class T>
void gelu_10(const T* x, T* y, std::int64_t n);
/// relu(x)^2.
template <class T>
void relu2(const T* x, T* y, std::int64_t n);
/// relu(x), at most 6.
template <class T>
void relu6(const T* x, T* y, std::int64_t n);
/// x, or 0.01 x below 0.
template <class T>
void leaky_relu(const T* x, T* y, std::int64_t n);
/// x * relu6(x + 3) / 6.
template <class T>
void hardswish(const T* x, T* y, std::int64_t n);
/// x * tanh(log(1 + exp(x))) (Misra 2019).
template <class T>
void mish(const T* x, T* y, std::int64_t n);
/// Phi((x - 0.707107) / 0.282095) (Ma et al. 2022, "Mega"). Tails as those of gelu_tanh.
template <class T>
void laplace(const T* x, T* y, std::int64_t n);
/// sqrt(log(1 + exp(x))). Tails as those of gelu_tanh.
template <class T>
void sqrt_softplus(const T* x, T* y, std::int64_t n);

/// x, or the bound it lies beyond; NaN stays NaN.
template <class T>
void clamp(const T* x, T low, T high, T* y, std::int64_t n);
/// dx[i] = dy[i] where low <= x[i] <= high, otherwise 0.
template <class T>
void clamp_backward(const T* x, const T* dy, T low, T high, T* dx, std::int64_t n);

/// dx[i] = dy[i] * f'. Those named with `y` take the forward's output, those named with `x` its input. dx may
/// be dy. The gradient of neg is neg. abs and relu have gradient 0 at 0.
template <class T>
void abs_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void exp_backward(const T* y, const T* dy, T* dx, std::int64_t n);
template <class T>
void log_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void sqrt_backward(const T* y, const T* dy, T* dx, std::int64_t n);
template <class T>
void rsqrt_backward(const T* y, const T* dy, T* dx, std::int64_t n);
template <class T>
void sigmoid_backward(const T* y, const T* dy, T* dx, std::int64_t n);
template <class T>
void tanh_backward(const T* y, const T* dy, T* dx, std::int64_t n);
/// Input or output: both have the same sign, so either serves.
template <class T>
void relu_backward(const T* x_or_y, const T* dy, T* dx, std::int64_t n);
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void gelu_tanh_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void silu_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void quick_gelu_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void gelu_10_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void relu2_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void relu6_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void leaky_relu_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void hardswish_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void mish_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void laplace_backward(const T* x, const T* dy, T* dx, std::int64_t n);
template <class T>
void sqrt_softplus_backward(const T* x, const T* dy, T* dx, std::int64_t n);

/// y[i] = f(x[i]), by one of the functions above; y = x for Activation::none.
template <class T>
void activate(Activation f, const T* x, T* y, std::int64_t n);
/// dx[i] = dy[i] * f'(x[i]). `kept` is y where gradient_takes_output(f), else x.
template <class T>
void activate_backward(Activation f, const T* kept, const T* dy, T* dx, std::int64_t n);
bool gradient_takes_output(Activation f);

/// Gated activations (Dauphin et al. 2017; Shazeer 2020): y[i] = f(gate[i]) * x[i].
template <class T>
void gated_relu(const T* gate, const T* x, T* y, std::int64_t n);
template <class T>
void gated_gelu(const T* gate, const T* x, T* y, std::int64_t n);
template <class T>
void gated_gelu_tanh(const T* gate, const T* x, T* y, std::int64_t n);
template <class T>
void gated_silu(const T* gate, const T* x, T* y, std::int64_t n);
template <class T>
void gated_sigmoid(const T* gate, const T* x, T* y, std::int64_t n);

/// What the gradient of a gated activation reads and writes: dgate = dy * x * f'(gate), dx = dy * f(gate).
/// dgate or dx may be dy, gate or x.
template <class T>
struct GatedBackward {
  const T* gate = nullptr;
  const T* x = nullptr;
  const T* dy = nullptr;
  T* dgate = nullptr;
  T* dx = nullptr;
  std::int64_t n = 0;
};
template <class T>
void gated_relu_backward(const GatedBackward<T>& args);
template <class T>
void gated_gelu_backward(const GatedBackward<T>& args);
template <class T>
void gated_gelu_tanh_backward(const GatedBackward<T>& args);
template <class T>
void gated_silu_backward(const GatedBackward<T>& args);
template <class T>
void gated_sigmoid_backward(const GatedBackward<T>& args);

// Dropout (Srivastava et al. 2014), inverted: what is kept is scaled by 1 / (1 - p). The mask is a function
// of the stream and the element's index, so it is never stored, and the backward pass is the forward on dy.

/// y[i] = random.uniform(i) >= p ? x[i] / (1 - p) : 0, for 0 <= p <= 1. y may be x.
template <class T>
void dropout(const T* x, T* y, std::int64_t n, double p, RandomStream random);

}  // namespace heed::kernels
