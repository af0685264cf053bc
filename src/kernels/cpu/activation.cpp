// Element-wise functions of one argument and their gradients: the mathematics of one vector each, walked over
// arrays by simd-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/math-inl.h"
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
HWY_INLINE V constant(V, double value) {
  return hn::Set(hn::DFromV<V>(), static_cast<hn::TFromV<V>>(value));
}
template <class V>
HWY_INLINE V sign(V x) {
  const V zero = hn::Zero(hn::DFromV<V>());
  const V positive = hn::IfThenElseZero(hn::Gt(x, zero), constant(x, 1));
  return hn::Sub(positive, hn::IfThenElseZero(hn::Lt(x, zero), constant(x, 1)));
}
/// x limited to finite values from below, so that x * 0 at -inf is 0.
template <class V>
HWY_INLINE V above_minus_infinity(V x) {
  const V lowest = constant(x, std::numeric_limits<hn::TFromV<V>>::lowest());
  return hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
}
template <class V>
HWY_INLINE V relu_of(V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(hn::DFromV<V>())), x);
}

/// sqrt(8/pi) (x + 0.044715 x^3): gelu_tanh(x) = x sigmoid of this. |x| is limited so that it stays finite.
template <class V>
HWY_INLINE V gelu_argument(V x) {
  const V limit = constant(x, 100);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  const V cubic = hn::MulAdd(hn::Mul(near, near), constant(x, 0.044715), constant(x, 1));
  return hn::Mul(hn::Mul(near, cubic), constant(x, 1.59576912160573071176));
}
template <class V>
HWY_INLINE V gelu_tanh_slope(V x) {
  const V s = sigmoid_of(gelu_argument(x));
  const V limit = constant(x, 100);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  const V inner = hn::MulAdd(hn::Mul(near, near), constant(x, 3 * 0.044715), constant(x, 1));
  const V weight = hn::Mul(hn::Mul(near, inner), constant(x, 1.59576912160573071176));
  return hn::MulAdd(hn::Mul(weight, s), hn::Sub(constant(x, 1), s), s);
}
template <class V>
HWY_INLINE V gelu_slope(V x) {
  const auto normal = normal_of(x);
  const V limit = constant(x, 1e10);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), limit, x);
  return hn::MulAdd(hn::Mul(near, constant(x, 0.39894228040143267794)), normal.bell, normal.cdf);
}
template <class V>
HWY_INLINE V silu_slope(V x) {
  const V s = sigmoid_of(x);
  const V limit = constant(x, 1e10);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  // 1 - s as the sigmoid of -x: for large x the difference would lose all digits.
  return hn::Mul(s, hn::MulAdd(near, sigmoid_of(hn::Neg(x)), constant(x, 1)));
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
HEED_UNARY(gelu, hn::Mul(above_minus_infinity(x), normal_of(x).cdf))
HEED_UNARY(gelu_tanh, hn::Mul(above_minus_infinity(x), sigmoid_of(gelu_argument(x))))
HEED_UNARY(silu, hn::Mul(above_minus_infinity(x), sigmoid_of(x)))

HEED_UNARY_BACKWARD(abs_backward, x, hn::Mul(dy, sign(x)))
HEED_UNARY_BACKWARD(exp_backward, y, hn::Mul(dy, y))
HEED_UNARY_BACKWARD(log_backward, x, hn::Div(dy, x))
HEED_UNARY_BACKWARD(sqrt_backward, y, hn::Div(dy, hn::Add(y, y)))
HEED_UNARY_BACKWARD(rsqrt_backward, y, hn::Mul(hn::Mul(dy, constant(y, -0.5)), hn::Mul(hn::Mul(y, y), y)))
HEED_UNARY_BACKWARD(sigmoid_backward, y, hn::Mul(dy, hn::Mul(y, hn::Sub(constant(y, 1), y))))
HEED_UNARY_BACKWARD(tanh_backward, y, hn::Mul(dy, hn::NegMulAdd(y, y, constant(y, 1))))
HEED_UNARY_BACKWARD(relu_backward, x, hn::IfThenElseZero(hn::Gt(x, hn::Zero(hn::DFromV<decltype(x)>())), dy))
HEED_UNARY_BACKWARD(gelu_backward, x, hn::Mul(dy, gelu_slope(x)))
HEED_UNARY_BACKWARD(gelu_tanh_backward, x, hn::Mul(dy, gelu_tanh_slope(x)))
HEED_UNARY_BACKWARD(silu_backward, x, hn::Mul(dy, silu_slope(x)))

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

}  // namespace heed::kernels
#endif
