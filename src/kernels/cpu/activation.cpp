// Element-wise functions of one argument and their gradients: the mathematics of one vector each, walked over
// arrays by simd-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/activation-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// A function of x, or of the forward's x or y and of dy, from the expression of one vector.
#define HEED_UNARY(name, expression)                            \
  template <class T>                                            \
  void name(const T* x_, T* y_, int64_t n) {                    \
    map<T>(                                                     \
        n, y_, [](auto x) HWY_ATTR { return expression; }, x_); \
  }
#define HEED_UNARY_BACKWARD(name, argument, expression)                                        \
  template <class T>                                                                           \
  void name(const T* argument##_, const T* dy_, T* dx_, int64_t n) {                           \
    map<T>(                                                                                    \
        n, dx_, [](auto argument, auto dy) HWY_ATTR { return expression; }, argument##_, dy_); \
  }

template <class V>
HWY_INLINE V sign(V x) {
  const V zero = hn::Zero(hn::DFromV<V>());
  const V positive = hn::IfThenElseZero(hn::Gt(x, zero), constant(x, 1));
  return hn::Sub(positive, hn::IfThenElseZero(hn::Lt(x, zero), constant(x, 1)));
}
HEED_UNARY(neg, hn::Neg(x))
HEED_UNARY(abs, hn::Abs(x))
HEED_UNARY(exp, exp_of(x))
HEED_UNARY(log, log_of(x))
HEED_UNARY(sqrt, hn::Sqrt(x))
HEED_UNARY(rsqrt, hn::Div(constant(x, 1), hn::Sqrt(x)))
HEED_UNARY(sigmoid, sigmoid_of(x))
HEED_UNARY(tanh, tanh_of(x))
HEED_UNARY(relu, relu_of(x))
HEED_UNARY(gelu, gelu_with_slope(x).value)
HEED_UNARY(gelu_tanh, gelu_tanh_with_slope(x).value)
HEED_UNARY(silu, silu_with_slope(x).value)
HEED_UNARY(quick_gelu, quick_gelu_with_slope(x).value)
HEED_UNARY(gelu_10, gelu_10_with_slope(x).value)
HEED_UNARY(relu2, relu2_with_slope(x).value)
HEED_UNARY(relu6, relu6_with_slope(x).value)
HEED_UNARY(leaky_relu, leaky_relu_with_slope(x).value)
HEED_UNARY(hardswish, hardswish_with_slope(x).value)
HEED_UNARY(mish, mish_with_slope(x).value)
HEED_UNARY(laplace, laplace_with_slope(x).value)
HEED_UNARY(sqrt_softplus, sqrt_softplus_with_slope(x).value)

HEED_UNARY_BACKWARD(abs_backward, x, hn::Mul(dy, sign(x)))
HEED_UNARY_BACKWARD(exp_backward, y, hn::Mul(dy, y))
HEED_UNARY_BACKWARD(log_backward, x, hn::Div(dy, x))
HEED_UNARY_BACKWARD(sqrt_backward, y, hn::Div(dy, hn::Add(y, y)))
HEED_UNARY_BACKWARD(rsqrt_backward, y, hn::Mul(hn::Mul(dy, constant(y, -0.5)), hn::Mul(hn::Mul(y, y), y)))
HEED_UNARY_BACKWARD(sigmoid_backward, y, hn::Mul(dy, hn::Mul(y, hn::Sub(constant(y, 1), y))))
HEED_UNARY_BACKWARD(tanh_backward, y, hn::Mul(dy, hn::NegMulAdd(y, y, constant(y, 1))))
HEED_UNARY_BACKWARD(relu_backward, x, hn::IfThenElseZero(hn::Gt(x, hn::Zero(hn::DFromV<decltype(x)>())), dy))
HEED_UNARY_BACKWARD(gelu_backward, x, hn::Mul(dy, gelu_with_slope(x).slope))
HEED_UNARY_BACKWARD(gelu_tanh_backward, x, hn::Mul(dy, gelu_tanh_with_slope(x).slope))
HEED_UNARY_BACKWARD(silu_backward, x, hn::Mul(dy, silu_with_slope(x).slope))
HEED_UNARY_BACKWARD(quick_gelu_backward, x, hn::Mul(dy, quick_gelu_with_slope(x).slope))
HEED_UNARY_BACKWARD(gelu_10_backward, x, hn::Mul(dy, gelu_10_with_slope(x).slope))
HEED_UNARY_BACKWARD(relu2_backward, x, hn::Mul(dy, relu2_with_slope(x).slope))
HEED_UNARY_BACKWARD(relu6_backward, x, hn::Mul(dy, relu6_with_slope(x).slope))
HEED_UNARY_BACKWARD(leaky_relu_backward, x, hn::Mul(dy, leaky_relu_with_slope(x).slope))
HEED_UNARY_BACKWARD(hardswish_backward, x, hn::Mul(dy, hardswish_with_slope(x).slope))
HEED_UNARY_BACKWARD(mish_backward, x, hn::Mul(dy, mish_with_slope(x).slope))
HEED_UNARY_BACKWARD(laplace_backward, x, hn::Mul(dy, laplace_with_slope(x).slope))
HEED_UNARY_BACKWARD(sqrt_softplus_backward, x, hn::Mul(dy, sqrt_softplus_with_slope(x).slope))

#undef HEED_UNARY
#undef HEED_UNARY_BACKWARD

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

#define HEED_UNARY(name)                                  \
  HEED_EXPORT(name);                                      \
  template <class T>                                      \
  void name(const T* x, T* y, std::int64_t n) {           \
    HEED_DISPATCH(name, T)(x, y, n);                      \
  }                                                       \
  template void name(const float*, float*, std::int64_t); \
  template void name(const double*, double*, std::int64_t);
#define HEED_UNARY_BACKWARD(name)                                       \
  HEED_EXPORT(name);                                                    \
  template <class T>                                                    \
  void name(const T* x, const T* dy, T* dx, std::int64_t n) {           \
    HEED_DISPATCH(name, T)(x, dy, dx, n);                               \
  }                                                                     \
  template void name(const float*, const float*, float*, std::int64_t); \
  template void name(const double*, const double*, double*, std::int64_t);

HEED_UNARY(neg)
HEED_UNARY(abs)
HEED_UNARY(exp)
HEED_UNARY(log)
HEED_UNARY(sqrt)
HEED_UNARY(rsqrt)
HEED_UNARY(sigmoid)
HEED_UNARY(tanh)
HEED_UNARY(relu)
HEED_UNARY(gelu)
HEED_UNARY(gelu_tanh)
HEED_UNARY(silu)
HEED_UNARY(quick_gelu)
HEED_UNARY(gelu_10)
HEED_UNARY(relu2)
HEED_UNARY(relu6)
HEED_UNARY(leaky_relu)
HEED_UNARY(hardswish)
HEED_UNARY(mish)
HEED_UNARY(laplace)
HEED_UNARY(sqrt_softplus)
HEED_UNARY_BACKWARD(abs_backward)
HEED_UNARY_BACKWARD(exp_backward)
HEED_UNARY_BACKWARD(log_backward)
HEED_UNARY_BACKWARD(sqrt_backward)
HEED_UNARY_BACKWARD(rsqrt_backward)
HEED_UNARY_BACKWARD(sigmoid_backward)
HEED_UNARY_BACKWARD(tanh_backward)
HEED_UNARY_BACKWARD(relu_backward)
HEED_UNARY_BACKWARD(gelu_backward)
HEED_UNARY_BACKWARD(gelu_tanh_backward)
HEED_UNARY_BACKWARD(silu_backward)
HEED_UNARY_BACKWARD(quick_gelu_backward)
HEED_UNARY_BACKWARD(gelu_10_backward)
HEED_UNARY_BACKWARD(relu2_backward)
HEED_UNARY_BACKWARD(relu6_backward)
HEED_UNARY_BACKWARD(leaky_relu_backward)
HEED_UNARY_BACKWARD(hardswish_backward)
HEED_UNARY_BACKWARD(mish_backward)
HEED_UNARY_BACKWARD(laplace_backward)
HEED_UNARY_BACKWARD(sqrt_softplus_backward)

template <class T>
void activate(Activation f, const T* x, T* y, std::int64_t n) {
  switch (f) {
    case Activation::none: std::copy_n(x, x == y ? 0 : n, y); return;
    case Activation::relu: return relu(x, y, n);
    case Activation::gelu: return gelu(x, y, n);
    case Activation::gelu_tanh: return gelu_tanh(x, y, n);
    case Activation::silu: return silu(x, y, n);
    case Activation::tanh: return tanh(x, y, n);
    case Activation::sigmoid: return sigmoid(x, y, n);
    case Activation::quick_gelu: return quick_gelu(x, y, n);
    case Activation::gelu_10: return gelu_10(x, y, n);
    case Activation::relu2: return relu2(x, y, n);
    case Activation::relu6: return relu6(x, y, n);
    case Activation::leaky_relu: return leaky_relu(x, y, n);
    case Activation::hardswish: return hardswish(x, y, n);
    case Activation::mish: return mish(x, y, n);
    case Activation::laplace: return laplace(x, y, n);
    case Activation::sqrt_softplus: return sqrt_softplus(x, y, n);
  }
}

template <class T>
void activate_backward(Activation f, const T* kept, const T* dy, T* dx, std::int64_t n) {
  switch (f) {
    case Activation::none: std::copy_n(dy, dx == dy ? 0 : n, dx); return;
    case Activation::relu: return relu_backward(kept, dy, dx, n);
    case Activation::gelu: return gelu_backward(kept, dy, dx, n);
    case Activation::gelu_tanh: return gelu_tanh_backward(kept, dy, dx, n);
    case Activation::silu: return silu_backward(kept, dy, dx, n);
    case Activation::tanh: return tanh_backward(kept, dy, dx, n);
    case Activation::sigmoid: return sigmoid_backward(kept, dy, dx, n);
    case Activation::quick_gelu: return quick_gelu_backward(kept, dy, dx, n);
    case Activation::gelu_10: return gelu_10_backward(kept, dy, dx, n);
    case Activation::relu2: return relu2_backward(kept, dy, dx, n);
    case Activation::relu6: return relu6_backward(kept, dy, dx, n);
    case Activation::leaky_relu: return leaky_relu_backward(kept, dy, dx, n);
    case Activation::hardswish: return hardswish_backward(kept, dy, dx, n);
    case Activation::mish: return mish_backward(kept, dy, dx, n);
    case Activation::laplace: return laplace_backward(kept, dy, dx, n);
    case Activation::sqrt_softplus: return sqrt_softplus_backward(kept, dy, dx, n);
  }
}

bool gradient_takes_output(Activation f) {
  return f == Activation::relu || f == Activation::tanh || f == Activation::sigmoid;
}

#define HEED_INSTANTIATE(T)                                       \
  template void activate(Activation, const T*, T*, std::int64_t); \
  template void activate_backward(Activation, const T*, const T*, T*, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
