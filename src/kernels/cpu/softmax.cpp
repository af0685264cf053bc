// Softmax and log-softmax, a row at a time while it lies in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/exp-inl.h"
#include "kernels/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Whether a row of maximum `largest` is -inf throughout. A NaN may hide from the maximum, not from the sum.
template <class T>
HWY_INLINE bool all_masked(T largest, const T* x, int64_t n) {
  return largest == -std::numeric_limits<T>::infinity() && !std::isnan(row_sum(x, n));
}

template <class T>
HWY_INLINE void softmax_row(const T* x, T* y, int64_t n) {
  const T largest = row_max(x, n);
  if (all_masked(largest, x, n)) {
    std::fill(y, y + n, T(0));
    return;
  }
  const Vec<T> inverse = broadcast(T(1) / exp_row(x, y, n, largest));
  map_range<T>(
      0, n, y, [inverse](auto v) HWY_ATTR { return hn::Mul(v, inverse); }, static_cast<const T*>(y));
}

template <class T>
HWY_INLINE void softmax_backward_row(const T* y, const T* dy, T* dx, int64_t n) {
  const Vec<T> mean = broadcast(row_dot(y, dy, n));
  map_range<T>(
      0, n, dx, [mean](auto p, auto g) HWY_ATTR { return hn::Mul(p, hn::Sub(g, mean)); }, y, dy);
}

/// Sum of exp(x - shift), without writing anything.
template <class T>
HWY_INLINE T exp_sum_row(const T* x, int64_t n, T shift) {
  const Vec<T> s = broadcast(shift);
  const auto gather = [s](auto acc, auto v) HWY_ATTR { return hn::Add(acc, exp_nonpositive(hn::Sub(v, s))); };
  const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return total<T>(fold<T>(n, broadcast(T(0)), -std::numeric_limits<T>::infinity(), gather, plus, x));
}

template <class T>
HWY_INLINE void log_softmax_row(const T* x, T* y, int64_t n) {
  const T largest = row_max(x, n);
  if (all_masked(largest, x, n)) {
    std::fill(y, y + n, largest);
    return;
  }
  const Vec<T> shift = broadcast(largest), log_sum = broadcast(std::log(exp_sum_row(x, n, largest)));
  // Two subtractions: the sum of both numbers would round away digits of a large maximum's row.
  map_range<T>(
      0, n, y, [=](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), log_sum); }, x);
}

template <class T>
HWY_INLINE void log_softmax_backward_row(const T* y, const T* dy, T* dx, int64_t n) {
  const Vec<T> sum = broadcast(row_sum(dy, n));
  if (all_masked(row_max(y, n), y, n)) {
    std::fill(dx, dx + n, T(0));
    return;
  }
  map_range<T>(
      0, n, dx, [sum](auto v, auto g) HWY_ATTR { return hn::NegMulAdd(exp_nonpositive(v), sum, g); }, y, dy);
}

#define HEED_ROWS(name)                                                             \
  template <class T>                                                                \
  void name(const T* x, T* y, int64_t rows, int64_t n) {                            \
    parallel_for(rows, row_grain(4 * n), [=](int64_t begin, int64_t end) HWY_ATTR { \
      for (int64_t r = begin; r < end; ++r) name##_row(x + r * n, y + r * n, n);    \
    });                                                                             \
  }
#define HEED_ROWS_BACKWARD(name)                                                              \
  template <class T>                                                                          \
  void name(const T* y, const T* dy, T* dx, int64_t rows, int64_t n) {                        \
    parallel_for(rows, row_grain(2 * n), [=](int64_t begin, int64_t end) HWY_ATTR {           \
      for (int64_t r = begin; r < end; ++r) name##_row(y + r * n, dy + r * n, dx + r * n, n); \
    });                                                                                       \
  }
HEED_ROWS(softmax)
HEED_ROWS(log_softmax)
HEED_ROWS_BACKWARD(softmax_backward)
HEED_ROWS_BACKWARD(log_softmax_backward)
#undef HEED_ROWS
#undef HEED_ROWS_BACKWARD

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(softmax);
HEED_EXPORT(softmax_backward);
HEED_EXPORT(log_softmax);
HEED_EXPORT(log_softmax_backward);

template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(softmax, T)(x, y, rows, n);
}
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(softmax_backward, T)(y, dy, dx, rows, n);
}
template <class T>
void log_softmax(const T* x, T* y, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(log_softmax, T)(x, y, rows, n);
}
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(log_softmax_backward, T)(y, dy, dx, rows, n);
}

#define HEED_INSTANTIATE(T)                                                           \
  template void softmax(const T*, T*, std::int64_t, std::int64_t);                    \
  template void softmax_backward(const T*, const T*, T*, std::int64_t, std::int64_t); \
  template void log_softmax(const T*, T*, std::int64_t, std::int64_t);                \
  template void log_softmax_backward(const T*, const T*, T*, std::int64_t, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
