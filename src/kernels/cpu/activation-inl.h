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
  return at_least(constant(x, std::numeric_limits<hn::TFromV<V>>::lowest()), x);
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

template <class V>
HWY_INLINE ValueAndSlope<V> quick_gelu_with_slope(V x) {
  const V scaled = hn::Mul(x, constant(x, 1.702));
  return {hn::Mul(above_minus_infinity(x), sigmoid_of(scaled)), silu_with_slope(scaled).slope};
}

template <class V>
HWY_INLINE ValueAndSlope<V> gelu_10_with_slope(V x) {
  const ValueAndSlope<V> whole = gelu_with_slope(x);
  const auto beyond = hn::Gt(whole.value, constant(x, 10));
  return {hn::IfThenElse(beyond, constant(x, 10), whole.value), hn::IfThenZeroElse(beyond, whole.slope)};
}

template <class V>
HWY_INLINE ValueAndSlope<V> relu2_with_slope(V x) {
  const V positive = relu_of(x);
  return {hn::Mul(positive, positive), hn::Add(positive, positive)};
}

template <class V>
HWY_INLINE ValueAndSlope<V> relu6_with_slope(V x) {
  const auto beyond = hn::Gt(x, constant(x, 6));
  const auto inside = hn::And(hn::Gt(x, hn::Zero(hn::DFromV<V>())), hn::Lt(x, constant(x, 6)));
  return {hn::IfThenElse(beyond, constant(x, 6), relu_of(x)), hn::IfThenElseZero(inside, constant(x, 1))};
}

template <class V>
HWY_INLINE ValueAndSlope<V> leaky_relu_with_slope(V x) {
  const V slope = hn::IfThenElse(hn::Gt(x, hn::Zero(hn::DFromV<V>())), constant(x, 1), constant(x, 0.01));
  return {hn::Mul(x, slope), slope};
}

template <class V>
HWY_INLINE ValueAndSlope<V> hardswish_with_slope(V x) {
  const auto below = hn::Le(x, constant(x, -3)), beyond = hn::Ge(x, constant(x, 3));
  const V sixth = constant(x, 1.0 / 6), half = constant(x, 0.5);
  const V value = hn::Mul(x, hn::Mul(hn::Add(x, constant(x, 3)), sixth));
  const V slope = hn::MulAdd(x, hn::Add(sixth, sixth), half);
  return {hn::IfThenZeroElse(below, hn::IfThenElse(beyond, x, value)),
          hn::IfThenZeroElse(below, hn::IfThenElse(beyond, constant(x, 1), slope))};
}

/// tanh(log(1 + n)), n = exp(x), is w / (w + 2) with w = n (n + 2).
template <class V>
HWY_INLINE ValueAndSlope<V> mish_with_slope(V x) {
  const V one = constant(x, 1), two = constant(x, 2), limit = constant(x, 20);
  const auto far = hn::Gt(x, limit);  // where tanh is 1
  const V n = exp_of(hn::IfThenElse(far, limit, x));
  const V w = hn::Mul(n, hn::Add(n, two)), root = hn::Div(one, hn::Add(w, two));
  const V t = hn::IfThenElse(far, one, hn::Mul(w, root));
  // dt/dx = 4 n (n + 1) / (w + 2)^2
  const V bend = hn::Mul(hn::Mul(constant(x, 4), hn::Mul(n, hn::Add(n, one))), hn::Mul(root, root));
  const V finite = above_minus_infinity(x);
  return {hn::Mul(finite, t), hn::IfThenElse(far, one, hn::MulAdd(finite, bend, t))};
}

template <class V>
HWY_INLINE ValueAndSlope<V> laplace_with_slope(V x) {
  constexpr double kMean = 0.707107, kDeviation = 0.282095;
  const auto normal = normal_of(hn::Mul(hn::Sub(x, constant(x, kMean)), constant(x, 1 / kDeviation)));
  return {normal.cdf, hn::Mul(normal.bell, constant(x, 0.39894228040143267794 / kDeviation))};
}

/// softplus(x) = max(x, 0) + log(1 + e), e = exp(-|x|); the slope is sigmoid(x) / (2 sqrt(softplus(x))).
template <class V>
HWY_INLINE ValueAndSlope<V> sqrt_softplus_with_slope(V x) {
  const V one = constant(x, 1), e = exp_of(hn::Neg(hn::Abs(x)));
  const V sum = hn::Add(one, e), rounded = hn::Sub(sum, one);
  // log(1 + e) to the last digits: what rounding 1 + e changed, changes the logarithm in proportion.
  const auto tiny = hn::Eq(rounded, hn::Zero(hn::DFromV<V>()));
  const V log1p =
      hn::IfThenElse(tiny, e, hn::Mul(log_of(sum), hn::Div(e, hn::IfThenElse(tiny, one, rounded))));
  const V root = hn::Sqrt(hn::Add(relu_of(x), log1p));
  const auto vanished = hn::Eq(root, hn::Zero(hn::DFromV<V>()));
  return {root, hn::IfThenZeroElse(vanished, hn::Div(sigmoid_of(x), hn::Add(root, root)))};
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
