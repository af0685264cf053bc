// Sums in double of float or double data: the accumulators are wide enough that the error does not grow with
// the length in any way that float could show.
#if defined(HEED_KERNELS_DOUBLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_DOUBLE_INL_H_
#undef HEED_KERNELS_DOUBLE_INL_H_
#else
#define HEED_KERNELS_DOUBLE_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// lanes<double>() elements, widened.
HWY_INLINE Vec<double> load_wide(const double* p) { return load(p); }
HWY_INLINE Vec<double> load_wide(const float* p) {
  const Tag<double> d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Tag<double>>(), p));
}

/// Sum over i of fn(x[i]), fn mapping a vector of doubles to one with fn(0) = 0.
template <class T, class Fn>
HWY_INLINE double wide_sum(const T* x, int64_t n, Fn fn) {
  constexpr int64_t N = lanes<double>();
  Vec<double> a0 = hn::Zero(Tag<double>()), a1 = a0, a2 = a0, a3 = a0;
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    a0 = hn::Add(a0, fn(load_wide(x + i)));
    a1 = hn::Add(a1, fn(load_wide(x + i + N)));
    a2 = hn::Add(a2, fn(load_wide(x + i + 2 * N)));
    a3 = hn::Add(a3, fn(load_wide(x + i + 3 * N)));
  }
  T tail[4 * N] = {};
  if (i < n) std::memcpy(tail, x + i, static_cast<std::size_t>(n - i) * sizeof(T));
  for (int64_t j = 0; i + j < n; j += N) a0 = hn::Add(a0, fn(load_wide(tail + j)));
  return total<double>(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)));
}

/// acc[j] += sum over r < rows of x[r * n + j], j < n.
template <class T>
HWY_INLINE void wide_column_sums(const T* x, int64_t rows, int64_t n, double* acc) {
  constexpr int64_t N = lanes<double>();
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * n;
    int64_t j = 0;
    for (; j + N <= n; j += N) store<double>(hn::Add(load(acc + j), load_wide(row + j)), acc + j);
    for (; j < n; ++j) acc[j] += static_cast<double>(row[j]);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
