// Exponentials of what is known not to be above 0: those of a softmax, and their sum along a row.
#if defined(HEED_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_EXP_INL_H_
#undef HEED_KERNELS_EXP_INL_H_
#else
#define HEED_KERNELS_EXP_INL_H_
#endif

#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// exp(x) for x <= 0, in three quarters of the operations of exp_of. The exponent is rounded by adding a
/// number whose last bit is worth 1; with 127 more it has the bits of a float's exponent but for a shift, and
/// with 32 more than that it fits for denormal results too.
HWY_INLINE Floats exp_nonpositive(Floats x) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  const Floats shifter = broadcast(0x1.8p23f + 159.0f);
  const Floats exponent = hn::MulAdd(x, broadcast(1.44269504f), shifter);
  const Floats n = hn::Sub(exponent, shifter);
  Floats r = hn::NegMulAdd(n, broadcast(0.693359375f), x);
  r = hn::NegMulAdd(n, broadcast(-2.12194440e-4f), r);
  const Floats tail =
      polynomial(r, 4.999999955e-01f, 1.666657719e-01f, 4.166685381e-02f, 8.363162115e-03f, 1.390127805e-03f);
  const Floats power = hn::Add(hn::MulAdd(hn::Mul(r, r), tail, r), broadcast(1.0f));
  const Floats scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, exponent)));
  const Floats result = hn::Mul(hn::Mul(power, scale), broadcast(0x1.0p-32f));
  return hn::IfThenZeroElse(hn::Lt(x, broadcast(-106.0f)), result);
}
HWY_INLINE Doubles exp_nonpositive(Doubles x) { return exp_of(x); }

/// y = exp(x - shift), none of x above shift; returns the sum of y, added up as `fold` does. y may be x.
template <class T>
HWY_INLINE T exp_row(const T* x, T* y, int64_t n, T shift) {
  constexpr int64_t N = lanes<T>();
  const Vec<T> s = broadcast(shift);
  Vec<T> a0 = broadcast(T(0)), a1 = a0, a2 = a0, a3 = a0;
  const auto step = [&](int64_t i, Vec<T> sum) HWY_ATTR {
    const Vec<T> e = exp_nonpositive(hn::Sub(load(x + i), s));
    store<T>(e, y + i);
    return hn::Add(sum, e);
  };
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    a0 = step(i, a0);
    a1 = step(i + N, a1);
    a2 = step(i + 2 * N, a2);
    a3 = step(i + 3 * N, a3);
  }
  for (; i + N <= n; i += N) a0 = step(i, a0);
  if (i < n) {
    const Vec<T> last = load_first(x + i, n - i, -std::numeric_limits<T>::infinity());
    const Vec<T> e = exp_nonpositive(hn::Sub(last, s));
    store_first<T>(e, y + i, n - i);
    a1 = hn::Add(a1, e);
  }
  return total<T>(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
