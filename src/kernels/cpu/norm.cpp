// Layer and RMS normalization. Statistics come in two passes over a row in cache (mean, then squared
// distances), so that a large mean costs no digits. Both norms share one backward: with x^ = (x - mean) rstd
// and g = dy * weight,
//   dx = rstd * (g - mean(g) - x^ mean(g x^)), where RMS norm has mean 0 and lacks the middle term.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "heed/buffer.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/norm.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// sum = x + residual where there is a residual; returns the row to normalize.
template <class T>
HWY_INLINE const T* add_residual(const T* x, const T* residual, T* sum, int64_t d) {
  if (residual == nullptr) return x;
  map_range<T>(
      0, d, sum, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x, residual);
  return sum;
}

/// Sum of (x - mean)^2.
template <class T>
HWY_INLINE T squared_distance(const T* x, int64_t d, T mean) {
  const Vec<T> m = broadcast(mean);
  const auto gather = [m](auto acc, auto v) HWY_ATTR {
    const auto distance = hn::Sub(v, m);
    return hn::MulAdd(distance, distance, acc);
  };
  const auto plus = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return total<T>(fold<T>(d, broadcast(T(0)), mean, gather, plus, x));
}

/// y = (x - mean) * rstd * weight + bias; weight and bias may be null.
template <class T>
HWY_INLINE void normalize_row(const T* x, const T* weight, const T* bias, T* y, int64_t d, T mean, T rstd) {
  const Vec<T> m = broadcast(mean), r = broadcast(rstd);
  const auto standard = [=](auto v) HWY_ATTR { return hn::Mul(hn::Sub(v, m), r); };
  if (weight != nullptr && bias != nullptr) {
    map_range<T>(
        0, d, y, [=](auto v, auto w, auto b) HWY_ATTR { return hn::MulAdd(standard(v), w, b); }, x, weight,
        bias);
  } else if (weight != nullptr) {
    map_range<T>(
        0, d, y, [=](auto v, auto w) HWY_ATTR { return hn::Mul(standard(v), w); }, x, weight);
  } else if (bias != nullptr) {
    map_range<T>(
        0, d, y, [=](auto v, auto b) HWY_ATTR { return hn::Add(standard(v), b); }, x, bias);
  } else {
    map_range<T>(0, d, y, standard, x);
  }
}

/// `centered`: layer norm, which subtracts the mean.
template <class T>
void norm_forward(const Norm<T>& a, bool centered) {
  const int64_t d = a.d;
  if (d == 0) return;
  parallel_for(a.rows, row_grain(d), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = add_residual(a.x + r * d, a.residual ? a.residual + r * d : nullptr,
                                a.sum ? a.sum + r * d : nullptr, d);
      const T mean = centered ? row_sum(x, d) / static_cast<T>(d) : T(0);
      const T squares = centered ? squared_distance(x, d, mean) : row_dot(x, x, d);
      const T rstd = T(1) / std::sqrt(squares / static_cast<T>(d) + static_cast<T>(a.eps));
      normalize_row(x, a.weight, a.bias, a.y + r * d, d, mean, rstd);
      if (a.mean != nullptr) a.mean[r] = mean;
      if (a.rstd != nullptr) a.rstd[r] = rstd;
    }
  });
}

/// What dx of a row needs: the sums of g and of (x - mean) g with g = dy * weight.
template <class T>
struct RowSlopes {
  T level;
  T along;
};

/// One pass over x and dy: those sums, and dw += (x - mean) rstd dy and db += dy, each where it is not null.
template <class T>
HWY_INLINE RowSlopes<T> row_slopes(const NormBackward<T>& a, int64_t r, T mean, const T* weight, T* dw,
                                   T* db) {
  constexpr int64_t N = lanes<T>();
  const int64_t d = a.d;
  const T *x = a.x + r * d, *dy = a.dy + r * d;
  const Vec<T> m = broadcast(mean), rstd = broadcast(a.rstd[r]);
  Vec<T> level = broadcast(T(0)), along = level;
  const auto step = [&](auto v, auto g, auto w) HWY_ATTR {
    const auto product = hn::Mul(g, w);
    level = hn::Add(level, product);
    along = hn::MulAdd(hn::Sub(v, m), product, along);
  };
  const auto weighted = [&](auto v, auto g, auto acc)
                            HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, m), rstd), g, acc); };
  int64_t i = 0;
  for (; i + N <= d; i += N) {
    const Vec<T> v = load(x + i), g = load(dy + i);
    step(v, g, load(weight + i));
    if (dw != nullptr) store<T>(weighted(v, g, load(dw + i)), dw + i);
    if (db != nullptr) store<T>(hn::Add(load(db + i), g), db + i);
  }
  if (i < d) {
    const int64_t rest = d - i;
    const Vec<T> v = load_first(x + i, rest), g = load_first(dy + i, rest);
    step(v, g, load_first(weight + i, rest));
    if (dw != nullptr) store_first<T>(weighted(v, g, load_first(dw + i, rest)), dw + i, rest);
    if (db != nullptr) store_first<T>(hn::Add(load_first(db + i, rest), g), db + i, rest);
  }
  return {total<T>(level), total<T>(along)};
}

/// dx of one row. `centered` is whether the forward subtracted the mean.
template <class T>
HWY_INLINE void norm_backward_row(const NormBackward<T>& a, int64_t r, T mean, bool centered, const T* weight,
                                  const RowSlopes<T>& slopes) {
  const int64_t d = a.d;
  const T *x = a.x + r * d, *dy = a.dy + r * d;
  const T scale = T(1) / static_cast<T>(d);
  const Vec<T> m = broadcast(mean), rstd = broadcast(a.rstd[r]);
  const Vec<T> c = broadcast(slopes.along * a.rstd[r] * scale * a.rstd[r]);
  const Vec<T> b = broadcast(centered ? slopes.level * scale : T(0));
  const auto gradient = [=](auto v, auto g, auto w) HWY_ATTR {
    return hn::Mul(rstd, hn::NegMulAdd(hn::Sub(v, m), c, hn::Sub(hn::Mul(g, w), b)));
  };
  T* dx = a.dx + r * d;
  if (a.dsum == nullptr) {
    map_range<T>(0, d, dx, gradient, x, dy, weight);
  } else {
    map_range<T>(
        0, d, dx, [=](auto v, auto g, auto w, auto s) HWY_ATTR { return hn::Add(gradient(v, g, w), s); }, x,
        dy, weight, a.dsum + r * d);
  }
}

inline constexpr int64_t kRowsPerPartial = 32;

/// to[j] = the sum over chunks c of partial[c * stride + j], in order, in double.
template <class T>
void add_partials(const T* partial, int64_t stride, int64_t chunks, T* to, int64_t d) {
  parallel_for(d, std::max<int64_t>(1, kElementGrain / (chunks + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < chunks; ++c) sum += static_cast<double>(partial[c * stride + j]);
      to[j] = static_cast<T>(sum);
    }
  });
}

/// Rows are cut into fixed chunks whose partial weight gradients are
/// added in order.
template <class T>
void norm_backward(const NormBackward<T>& a) {
  const int64_t d = a.d, chunks = (a.rows + kRowsPerPartial - 1) / kRowsPerPartial;
  const bool bias = a.dbias != nullptr, weights = bias || a.dweight != nullptr;
  const int64_t stride = bias ? 2 * d : d;
  const auto scratch = Buffer::allocate(static_cast<std::size_t>(weights ? chunks * stride : 0) * sizeof(T));
  T* partial = reinterpret_cast<T*>(scratch->data());
  const std::vector<T> ones(a.weight == nullptr ? static_cast<std::size_t>(d) : 0, T(1));
  const T* weight = a.weight != nullptr ? a.weight : ones.data();
  parallel_for(chunks, row_grain(kRowsPerPartial * d), [&](int64_t begin, int64_t end) HWY_ATTR {
    if (weights) std::fill(partial + begin * stride, partial + end * stride, T(0));
    for (int64_t r = begin * kRowsPerPartial; r < std::min(a.rows, end * kRowsPerPartial); ++r) {
      const T mean = a.mean != nullptr ? a.mean[r] : T(0);
      T* dw = weights ? partial + r / kRowsPerPartial * stride : nullptr;
      const RowSlopes<T> slopes = row_slopes(a, r, mean, weight, dw, bias ? dw + d : nullptr);
      if (a.dx != nullptr) norm_backward_row(a, r, mean, a.mean != nullptr, weight, slopes);
    }
  });
  if (a.dweight != nullptr) add_partials(partial, stride, chunks, a.dweight, d);
  if (bias) add_partials(partial + d, stride, chunks, a.dbias, d);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(norm_forward);
HEED_EXPORT(norm_backward);

template <class T>
void layer_norm(const Norm<T>& args) {
  HEED_DISPATCH(norm_forward, T)(args, true);
}
template <class T>
void rms_norm(const Norm<T>& args) {
  HEED_DISPATCH(norm_forward, T)(args, false);
}
template <class T>
void norm_backward(const NormBackward<T>& args) {
  HEED_DISPATCH(norm_backward, T)(args);
}

#define HEED_INSTANTIATE(T)                 \
  template void layer_norm(const Norm<T>&); \
  template void rms_norm(const Norm<T>&);   \
  template void norm_backward(const NormBackward<T>&);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
