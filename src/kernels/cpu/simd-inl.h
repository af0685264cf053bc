// What the kernels share: loads and stores of partial vectors, the walk over contiguous arrays, and folds
// over a row. Op files hand these the mathematics of one vector and hold no loop tails of their own.
#if defined(HEED_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "heed/threads.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

/// Elements below which an element-wise operation is not worth a second thread.
inline constexpr int64_t kElementGrain = 16384;
/// Rows per thread at least, for a row operation over rows of n elements.
inline int64_t row_grain(int64_t n) { return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(n, 1)); }

template <class T>
constexpr int64_t lanes() {
  return static_cast<int64_t>(hn::MaxLanes(Tag<T>()));
}
/// n rounded up to whole vectors.
template <class T>
constexpr int64_t padded(int64_t n) {
  return (n + lanes<T>() - 1) / lanes<T>() * lanes<T>();
}

template <class T>
HWY_INLINE Vec<T> broadcast(T value) {
  return hn::Set(Tag<T>(), value);
}
template <class T>
HWY_INLINE Vec<T> load(const T* p) {
  return hn::LoadU(Tag<T>(), p);
}
/// The first `count` lanes from p, the others `filler`. Reads nothing beyond.
template <class T>
HWY_INLINE Vec<T> load_first(const T* p, int64_t count, T filler = T(0)) {
  T buffer[lanes<T>()];
  for (T& value : buffer) value = filler;
  std::memcpy(buffer, p, static_cast<std::size_t>(count) * sizeof(T));
  return load(buffer);
}
template <class T>
HWY_INLINE void store(Vec<T> v, T* p) {
  hn::StoreU(v, Tag<T>(), p);
}
/// Writes the first `count` lanes and nothing beyond.
template <class T>
HWY_INLINE void store_first(Vec<T> v, T* p, int64_t count) {
  T buffer[lanes<T>()];
  store(v, buffer);
  std::memcpy(p, buffer, static_cast<std::size_t>(count) * sizeof(T));
}

/// y[i] = fn(x[i]...) for i in [begin, end); fn maps vectors to a vector.
template <class T, class Fn, class... In>
HWY_INLINE void map_range(int64_t begin, int64_t end, T* y, Fn fn, const In*... x) {
  int64_t i = begin;
  for (; i + lanes<T>() <= end; i += lanes<T>()) store<T>(fn(load(x + i)...), y + i);
  if (i < end) store_first<T>(fn(load_first(x + i, end - i)...), y + i, end - i);
}

/// map_range over [0, n) on all threads.
template <class T, class Fn, class... In>
HWY_INLINE void map(int64_t n, T* y, Fn fn, const In*... x) {
  parallel_for(n, kElementGrain,
               [=](int64_t begin, int64_t end) HWY_ATTR { map_range<T>(begin, end, y, fn, x...); });
}

/// Calls fn(vector, vectors...) on all of [0, n): acc = fn(acc, x[i]...), four accumulators in turn, which
/// `combine` then merges. Lanes beyond the end hold `filler`; fn must leave the accumulator alone for it.
template <class T, class Fn, class Combine, class... In>
HWY_INLINE Vec<T> fold(int64_t n, Vec<T> start, T filler, Fn fn, Combine combine, const In*... x) {
  constexpr int64_t N = lanes<T>();
  Vec<T> a0 = start, a1 = start, a2 = start, a3 = start;
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    a0 = fn(a0, load(x + i)...);
    a1 = fn(a1, load(x + i + N)...);
    a2 = fn(a2, load(x + i + 2 * N)...);
    a3 = fn(a3, load(x + i + 3 * N)...);
  }
  for (; i + N <= n; i += N) a0 = fn(a0, load(x + i)...);
  if (i < n) a1 = fn(a1, load_first(x + i, n - i, filler)...);
  return combine(combine(a0, a1), combine(a2, a3));
}

template <class T>
HWY_INLINE T total(Vec<T> v) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), v));
}

/// Largest of x[0, n); -inf if n is 0.
template <class T>
HWY_INLINE T row_max(const T* x, int64_t n) {
  const T lowest = -std::numeric_limits<T>::infinity();
  const auto larger = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), fold<T>(n, broadcast(lowest), lowest, larger, larger, x)));
}

template <class T>
HWY_INLINE T row_sum(const T* x, int64_t n) {
  const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return total<T>(fold<T>(n, broadcast(T(0)), T(0), plus, plus, x));
}

template <class T>
HWY_INLINE T row_dot(const T* a, const T* b, int64_t n) {
  const auto plus = [](auto u, auto v) HWY_ATTR { return hn::Add(u, v); };
  const auto multiply = [](auto acc, auto u, auto v) HWY_ATTR { return hn::MulAdd(u, v, acc); };
  return total<T>(fold<T>(n, broadcast(T(0)), T(0), multiply, plus, a, b));
}

/// The result of a scalar function on every lane, for what needs no speed.
template <class T, class Fn>
HWY_INLINE Vec<T> per_lane(Vec<T> v, Fn fn) {
  T buffer[lanes<T>()];
  store(v, buffer);
  for (T& value : buffer) value = fn(value);
  return load(buffer);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
