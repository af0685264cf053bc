// Sums, means, maxima. A sum is cut into chunks by its length alone; the chunks' partial sums, in double, are
// added in order, so any number of threads gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <atomic>

#include "kernels/cpu/simd-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

// Sums in double of float or double data: the accumulators are wide enough that the error does not grow with
// the length in any way that float could show.

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

inline constexpr int64_t kChunk = 16384;  // elements of one partial sum

/// y[outer, inner] = factor * sum over n of x[outer, n, inner].
template <class T>
void sum(const T* x, T* y, const Axis& axis) {
  const int64_t outer = axis.outer, n = axis.n, inner = axis.inner;
  if (outer * inner == 0) return;
  const int64_t chunk = std::max<int64_t>(64, kChunk / inner);  // rows of inner elements
  const int64_t chunks = std::max<int64_t>(1, (n + chunk - 1) / chunk);
  std::vector<double> partial(static_cast<std::size_t>(outer * chunks * inner), 0.0);
  parallel_for(outer * chunks, row_grain(std::min(n, chunk) * inner),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t first = task % chunks * chunk;
                   const int64_t rows = std::min(chunk, n - first);
                   const T* source = x + (task / chunks * n + first) * inner;
                   double* acc = partial.data() + task * inner;
                   if (inner == 1) {
                     *acc = wide_sum(source, rows, [](auto v) HWY_ATTR { return v; });
                   } else {
                     wide_column_sums(source, rows, inner, acc);
                   }
                 }
               });
  for (int64_t o = 0; o < outer; ++o) {
    double* acc = partial.data() + o * chunks * inner;
    for (int64_t c = 1; c < chunks; ++c) {
      for (int64_t j = 0; j < inner; ++j) acc[j] += acc[c * inner + j];
    }
    for (int64_t j = 0; j < inner; ++j) y[o * inner + j] = static_cast<T>(acc[j]);
  }
}

/// Sum of fn(x[i]) over fixed chunks.
template <class T, class Fn>
HWY_INLINE double chunked_sum(const T* x, int64_t n, Fn fn) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 4, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t c = begin; c < end; ++c) {
      partial[static_cast<std::size_t>(c)] = wide_sum(x + c * kChunk, std::min(kChunk, n - c * kChunk), fn);
    }
  });
  double result = 0;
  for (const double value : partial) result += value;
  return result;
}
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  return chunked_sum(x, n, [](auto v) HWY_ATTR { return hn::Mul(v, v); });
}

template <class T>
bool all_finite(const T* x, int64_t n) {
  std::atomic<bool> finite{true};
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) HWY_ATTR {
    // x - x is 0 for a finite x and NaN otherwise, and NaN stays in a sum.
    const auto gather = [](auto acc, auto v) HWY_ATTR { return hn::Add(acc, hn::Sub(v, v)); };
    const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
    const T zero = total<T>(fold<T>(end - begin, broadcast(T(0)), T(0), gather, plus, x + begin));
    if (zero != T(0)) finite = false;
  });
  return finite;
}

/// Largest value of a contiguous row and its first index; a NaN counts as largest.
template <class T>
HWY_INLINE int64_t row_argmax(const T* x, int64_t n) {
  const T sum_check = row_sum(x, n);
  if (sum_check != sum_check) {  // a NaN, or inf - inf: look closely
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] != x[i]) return i;
    }
  }
  const T largest = row_max(x, n);
  int64_t i = 0;
  while (x[i] != largest) ++i;
  return i;
}

template <class T>
void max(const T* x, T* y, int64_t* arg, const Axis& axis) {
  const int64_t outer = axis.outer, n = axis.n, inner = axis.inner;
  const T lowest = -std::numeric_limits<T>::infinity();
  if (n == 0) {
    std::fill(y, y + outer * inner, lowest);
    std::fill(arg, arg + outer * inner, int64_t{0});
    return;
  }
  parallel_for(outer, row_grain(n * inner), [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<int64_t> best(static_cast<std::size_t>(inner));
    for (int64_t o = begin; o < end; ++o) {
      const T* source = x + o * n * inner;
      T* out = y + o * inner;
      if (inner == 1) {
        best[0] = row_argmax(source, n);
        out[0] = source[best[0]];
      } else {
        std::copy(source, source + inner, out);
        std::fill(best.begin(), best.end(), int64_t{0});
        for (int64_t i = 1; i < n; ++i) {
          for (int64_t j = 0; j < inner; ++j) {
            const T value = source[i * inner + j];
            if (value > out[j] || (value != value && out[j] == out[j])) {
              out[j] = value;
              best[static_cast<std::size_t>(j)] = i;
            }
          }
        }
      }
      std::copy(best.begin(), best.end(), arg + o * inner);
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(sum);
HEED_EXPORT(max);
HEED_EXPORT(sum_of_squares);
HEED_EXPORT(all_finite);

template <class T>
void sum(const T* x, T* y, const Axis& axis) {
  HEED_DISPATCH(sum, T)(x, y, axis);
}
template <class T>
void max(const T* x, T* y, std::int64_t* arg, const Axis& axis) {
  HEED_DISPATCH(max, T)(x, y, arg, axis);
}
template <class T>
void max_backward(const T* dy, const std::int64_t* arg, T* dx, const Axis& axis) {
  const std::int64_t n = axis.n, inner = axis.inner;
  for (std::int64_t r = 0; r < axis.outer * inner; ++r) {
    dx[(r / inner * n + arg[r]) * inner + r % inner] = dy[r];
  }
}
template <class T>
void top_k(const T* x, std::int64_t* index, std::int64_t rows, std::int64_t n, std::int64_t k) {
  if (k == 0) return;
  const auto precedes = [](T a, T b) { return a > b || (a == a && b != b); };  // NaN comes last
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(n, 1));
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* values = x + row * n;
      std::int64_t* chosen = index + row * k;
      std::int64_t filled = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (filled == k && !precedes(values[i], values[chosen[k - 1]])) continue;
        std::int64_t slot = filled < k ? filled++ : k - 1;
        for (; slot > 0 && precedes(values[i], values[chosen[slot - 1]]); --slot)
          chosen[slot] = chosen[slot - 1];
        chosen[slot] = i;
      }
    }
  });
}
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  return HEED_DISPATCH(sum_of_squares, T)(x, n);
}
template <class T>
bool all_finite(const T* x, std::int64_t n) {
  return HEED_DISPATCH(all_finite, T)(x, n);
}

#define HEED_INSTANTIATE(T)                                                               \
  template void sum(const T*, T*, const Axis&);                                           \
  template void max(const T*, T*, std::int64_t*, const Axis&);                            \
  template void max_backward(const T*, const std::int64_t*, T*, const Axis&);             \
  template void top_k(const T*, std::int64_t*, std::int64_t, std::int64_t, std::int64_t); \
  template double sum_of_squares(const T*, std::int64_t);                                 \
  template bool all_finite(const T*, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
