// Activation functions of one vector together with their slopes, which share most of their work; what a
// caller does not use, the compiler drops.
#if defined(HEED_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ACTIVATION_INL_H_
#undef HEED_KERNELS_ACTIVATION_INL_H_
#else
#define HEED_KERNELS_ACTIVATION_INL_H_
#endif

#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class V>
HWY_INLINE V constant(V, double value) {
  return hn::Set(hn::DFromV<V>(), static_cast<hn::TFromV<V>>(value));
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

template <class V>
struct ValueAndSlope {
  V value;
  V slope;
};

template <class V>
HWY_INLINE ValueAndSlope<V> relu_with_slope(V x) {
  const auto positive = hn::Gt(x, hn::Zero(hn::DFromV<V>()));
  return {relu_of(x), hn::IfThenElseZero(positive, constant(x, 1))};
}

template <class V>
HWY_INLINE ValueAndSlope<V> sigmoid_with_slope(V x) {
  const V s = sigmoid_of(x);
  return {s, hn::Mul(s, hn::Sub(constant(x, 1), s))};
}

/// x sigmoid(z), z = sqrt(8/pi) (x + 0.044715 x^3), is x/2 (1 + tanh(z/2)). |x| is limited so that z stays
/// finite.
template <class V>
HWY_INLINE ValueAndSlope<V> gelu_tanh_with_slope(V x) {
  const V limit = constant(x, 100), root = constant(x, 1.59576912160573071176);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  const V square = hn::Mul(near, near);
  const V cubic = hn::MulAdd(square, constant(x, 0.044715), constant(x, 1));
  const V s = sigmoid_of(hn::Mul(hn::Mul(near, cubic), root));
  const V inner = hn::MulAdd(square, constant(x, 3 * 0.044715), constant(x, 1));
  const V weight = hn::Mul(hn::Mul(near, inner), root);
  return {hn::Mul(above_minus_infinity(x), s), hn::MulAdd(hn::Mul(weight, s), hn::Sub(constant(x, 1), s), s)};
}

template <class V>
HWY_INLINE ValueAndSlope<V> gelu_with_slope(V x) {
  const auto normal = normal_of(x);
  const V limit = constant(x, 1e10);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), limit, x);
  return {hn::Mul(above_minus_infinity(x), normal.cdf),
          hn::MulAdd(hn::Mul(near, constant(x, 0.39894228040143267794)), normal.bell, normal.cdf)};
}

template <class V>
HWY_INLINE ValueAndSlope<V> silu_with_slope(V x) {
  const V s = sigmoid_of(x);
  const V limit = constant(x, 1e10);
  const V near = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), hn::CopySign(limit, x), x);
  // 1 - s as the sigmoid of -x: for large x the difference would lose all digits.
  return {hn::Mul(above_minus_infinity(x), s),
          hn::Mul(s, hn::MulAdd(near, sigmoid_of(hn::Neg(x)), constant(x, 1)))};
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
