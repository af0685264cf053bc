// Elementary functions on vectors. In float: our own, within 4e-7 relative over the whole range, infinities
// included; the coefficients are least-maximum fits of the function named beside them. In double: the
// standard library's, lane by lane, since doubles serve to check gradients.
#if defined(HEED_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_MATH_INL_H_
#undef HEED_KERNELS_MATH_INL_H_
#else
#define HEED_KERNELS_MATH_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

using Floats = Vec<float>;
using Doubles = Vec<double>;

/// c0 + t c1 + t^2 c2 + ...
template <class V>
HWY_INLINE V polynomial(V, float c0) {
  return hn::Set(hn::DFromV<V>(), c0);
}
template <class V, class... Rest>
HWY_INLINE V polynomial(V t, float c0, Rest... rest) {
  return hn::MulAdd(polynomial(t, rest...), t, hn::Set(hn::DFromV<V>(), c0));
}

/// The smaller and the larger of x and a limit; a NaN stays one, which Highway does not promise.
template <class V>
HWY_INLINE V at_most(V limit, V x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Min(limit, x);  // of a NaN, the instruction takes the second
#else
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#endif
}
template <class V>
HWY_INLINE V at_least(V limit, V x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Max(limit, x);
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}

/// x 2^n for whole n in [-200, 200], rounded once: the exponent in two halves so that denormal results come
/// out right.
HWY_INLINE Floats times_power_of_two(Floats x, Floats n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return Floats{_mm512_scalef_ps(x.raw, n.raw)};
#else
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const Floats a = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const Floats b = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(x, a), b);
#endif
}

/// exp(x + rest), |rest| small against 1: x = n ln 2 + r, exp(r) by polynomial, then the exponent.
HWY_INLINE Floats exp_sum(Floats x, Floats rest) {
  x = at_most(broadcast(90.0f), at_least(broadcast(-106.0f), x));
  const Floats n = hn::Round(hn::Mul(x, broadcast(1.44269504f)));
  // ln 2 in two parts, the first with few bits: n times it is exact.
  Floats r = hn::NegMulAdd(n, broadcast(0.693359375f), x);
  r = hn::Add(hn::NegMulAdd(n, broadcast(-2.12194440e-4f), r), rest);
  const Floats tail =
      polynomial(r, 4.999999955e-01f, 1.666657719e-01f, 4.166685381e-02f, 8.363162115e-03f, 1.390127805e-03f);
  const Floats power = hn::Add(hn::MulAdd(hn::Mul(r, r), tail, r), broadcast(1.0f));
  return times_power_of_two(power, n);
}

HWY_INLINE Floats exp_of(Floats x) { return exp_sum(x, hn::Zero(Tag<float>())); }
HWY_INLINE Doubles exp_of(Doubles x) {
  return per_lane<double>(x, [](double v) { return std::exp(v); });
}

/// 2^x for x <= 1 or so: within 1e-7 relative, 0 from -127 down, with no more operations than a softmax
/// needs.
HWY_INLINE Floats exp2_of(Floats x) {
  const hn::RebindToSigned<Tag<float>> di;
  // At -127 the fraction is 0, the polynomial 1, and the sum of exponents 0. The order keeps a NaN.
  x = hn::Max(broadcast(-127.0f), x);
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits.
  const Floats shift = broadcast(0x1.8p23f);
  const Floats whole = hn::Add(x, shift);
  const Floats r = hn::Sub(x, hn::Sub(whole, shift));
  const Floats p = polynomial(r, 1.0f, 6.931472421e-01f, 2.402265221e-01f, 5.550310388e-02f, 9.617692791e-03f,
                              1.340664341e-03f, 1.559467782e-04f);
  return hn::BitCast(Tag<float>(), hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, whole))));
}
HWY_INLINE Doubles exp2_of(Doubles x) {
  return per_lane<double>(x, [](double v) { return std::exp2(v); });
}

HWY_INLINE Floats log_of(Floats x) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const auto tiny = hn::Lt(x, broadcast(std::numeric_limits<float>::min()));
  const Floats normal = hn::IfThenElse(tiny, hn::Mul(x, broadcast(0x1.0p23f)), x);
  const auto bits = hn::BitCast(di, normal);
  // The exponent that leaves a fraction in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is sqrt(1/2).
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const Floats fraction = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const Floats e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, broadcast(23.0f)));
  const Floats f = hn::Sub(fraction, broadcast(1.0f));
  // (log(1 + f) - f + f^2 / 2) / f^3
  const Floats p =
      polynomial(f, 3.333333117e-01f, -2.499999401e-01f, 2.000071479e-01f, -1.666805621e-01f,
                 1.424932076e-01f, -1.242017206e-01f, 1.167705118e-01f, -1.151441616e-01f, 7.037301201e-02f);
  const Floats square = hn::Mul(f, f);
  const Floats small = hn::MulAdd(e, broadcast(-2.12194440e-4f),
                                  hn::MulAdd(hn::Mul(square, f), p, hn::Mul(square, broadcast(-0.5f))));
  const Floats y = hn::MulAdd(e, broadcast(0.693359375f), hn::Add(f, small));
  const Floats infinity = broadcast(std::numeric_limits<float>::infinity());
  const Floats nan = broadcast(std::numeric_limits<float>::quiet_NaN());
  Floats result = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  result = hn::IfThenElse(hn::Ge(x, hn::Zero(d)), result, nan);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
}
HWY_INLINE Doubles log_of(Doubles x) {
  return per_lane<double>(x, [](double v) { return std::log(v); });
}

HWY_INLINE Floats tanh_of(Floats x) {
  const Tag<float> d;
  const Floats size = hn::Abs(x);
  const Floats one = broadcast(1.0f);
  const Floats square = hn::Mul(x, x);
  // (tanh(x) - x) / x^3 in x^2
  const Floats p = polynomial(square, -3.333332890e-01f, 1.333276478e-01f, -5.385014819e-02f,
                              2.099354279e-02f, -6.091399123e-03f);
  const Floats near = hn::MulAdd(hn::Mul(square, x), p, x);
  const Floats e = exp_of(hn::Add(size, size));
  const Floats far = hn::Sub(one, hn::Div(broadcast(2.0f), hn::Add(e, one)));
  // x itself at 0 keeps its sign; where far is used, x is finite or infinite and far is 1 at most.
  const Floats result = hn::IfThenElse(hn::Lt(size, broadcast(0.625f)), near, hn::CopySign(far, x));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
}
HWY_INLINE Doubles tanh_of(Doubles x) {
  return per_lane<double>(x, [](double v) { return std::tanh(v); });
}

/// 1 / (1 + exp(-x)) from z = exp(-|x|), which never overflows.
template <class V>
HWY_INLINE V sigmoid_of(V x) {
  const hn::DFromV<V> d;
  const V one = hn::Set(d, 1);
  const V z = exp_of(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), z, one), hn::Add(one, z));
}

/// The standard normal distribution function and exp(-x^2 / 2), which GELU and its derivative need together.
template <class V>
struct Normal {
  V cdf;
  V bell;
};

HWY_INLINE Normal<Floats> normal_of(Floats x) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  const Floats limit = broadcast(15.0f);  // exp(-15^2 / 2) is 0
  const Floats size = at_most(limit, hn::Abs(x));
  // x^2 / 2 = a^2 / 2 + (x - a)(x + a) / 2 with a the upper half of x's bits: a^2 is exact, the rest is
  // small.
  const Floats a = hn::BitCast(d, hn::And(hn::BitCast(du, size), hn::Set(du, 0xfffff000u)));
  const Floats half = broadcast(-0.5f);
  const Floats rest = hn::Mul(hn::Mul(hn::Sub(size, a), hn::Add(size, a)), half);
  const Floats bell = exp_sum(hn::Mul(hn::Mul(a, a), half), rest);
  // The upper tail is bell * s * P(t), s = 1 / (x + 2), t = (x - 2) s: fitted on [0, 14].
  const Floats two = broadcast(2.0f);
  const Floats s = hn::Div(broadcast(1.0f), hn::Add(size, two));
  const Floats t = hn::Mul(hn::Sub(size, two), s);
  const Floats p = polynomial(t, 6.724079931e-01f, -3.314045508e-01f, 2.879838344e-02f, 3.672126445e-02f,
                              -4.831514097e-04f, -6.749378739e-03f, -1.890126186e-03f, 8.788083094e-04f,
                              7.214908601e-04f, 3.522480626e-05f, -7.324375284e-05f);
  const Floats tail = hn::Mul(hn::Mul(bell, s), p);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(broadcast(1.0f), tail)), bell};
}
HWY_INLINE Normal<Doubles> normal_of(Doubles x) {
  return {per_lane<double>(x, [](double v) { return 0.5 * std::erfc(-v * 0.70710678118654752440); }),
          per_lane<double>(x, [](double v) { return std::exp(-0.5 * v * v); })};
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
