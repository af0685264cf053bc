// The kernels of each activation, as activate() and linear() run them.
#pragma once

#include <cstdint>

#include "heed/ops/activation.h"
#include "kernels/elementwise.h"

namespace heed {

/// y = forward(x) and dx = backward(kept, dy), kept being x, or y where that is enough.
template <class T>
struct ActivationKernels {
  void (*forward)(const T* x, T* y, std::int64_t n) = nullptr;
  void (*backward)(const T* kept, const T* dy, T* dx, std::int64_t n) = nullptr;
};

/// Both are null for Activation::none.
template <class T>
ActivationKernels<T> activation_kernels(Activation activation) {
  namespace k = kernels;
  switch (activation) {
    case Activation::none: return {};
    case Activation::relu: return {k::relu<T>, k::relu_backward<T>};
    case Activation::gelu: return {k::gelu<T>, k::gelu_backward<T>};
    case Activation::gelu_tanh: return {k::gelu_tanh<T>, k::gelu_tanh_backward<T>};
    case Activation::silu: return {k::silu<T>, k::silu_backward<T>};
    case Activation::tanh: return {k::tanh<T>, k::tanh_backward<T>};
    case Activation::sigmoid: return {k::sigmoid<T>, k::sigmoid_backward<T>};
    case Activation::quick_gelu: return {k::quick_gelu<T>, k::quick_gelu_backward<T>};
    case Activation::gelu_10: return {k::gelu_10<T>, k::gelu_10_backward<T>};
    case Activation::relu2: return {k::relu2<T>, k::relu2_backward<T>};
    case Activation::relu6: return {k::relu6<T>, k::relu6_backward<T>};
    case Activation::leaky_relu: return {k::leaky_relu<T>, k::leaky_relu_backward<T>};
    case Activation::hardswish: return {k::hardswish<T>, k::hardswish_backward<T>};
    case Activation::mish: return {k::mish<T>, k::mish_backward<T>};
    case Activation::laplace: return {k::laplace<T>, k::laplace_backward<T>};
    case Activation::sqrt_softplus: return {k::sqrt_softplus<T>, k::sqrt_softplus_backward<T>};
  }
  HEED_ASSERT(false, "unknown activation");
}

/// Whether the gradient is worked out from the output.
inline bool keeps_output(Activation activation) {
  return activation == Activation::relu || activation == Activation::tanh ||
         activation == Activation::sigmoid;
}

}  // namespace heed
