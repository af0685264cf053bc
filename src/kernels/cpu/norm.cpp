// Layer and RMS normalisation. Statistics come in two passes over a row in cache (mean, then squared
// distances), so that a large mean costs no digits. Both norms share one backward: with x^ = (x - mean) rstd
// and g = dy * weight,
//   dx = rstd * (g - mean(g) - x^ mean(g x^)), where RMS norm has mean 0 and lacks the middle term.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/norm.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// sum = x + residual where there is a residual; returns the row to normalise.
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

template <class T>
void layer_norm(const LayerNorm<T>& a) {
  const int64_t d = a.d;
  if (d == 0) return;
  parallel_for(a.rows, row_grain(d), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = add_residual(a.x + r * d, a.residual ? a.residual + r * d : nullptr,
                                a.sum ? a.sum + r * d : nullptr, d);
      const T mean = row_sum(x, d) / static_cast<T>(d);
      const T variance = squared_distance(x, d, mean) / static_cast<T>(d);
      const T rstd = T(1) / std::sqrt(variance + static_cast<T>(a.eps));
      normalize_row(x, a.weight, a.bias, a.y + r * d, d, mean, rstd);
      if (a.mean != nullptr) a.mean[r] = mean;
      if (a.rstd != nullptr) a.rstd[r] = rstd;
    }
  });
}

template <class T>
void rms_norm(const RmsNorm<T>& a) {
  const int64_t d = a.d;
  if (d == 0) return;
  parallel_for(a.rows, row_grain(d), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = add_residual(a.x + r * d, a.residual ? a.residual + r * d : nullptr,
                                a.sum ? a.sum + r * d : nullptr, d);
      const T square = row_dot(x, x, d) / static_cast<T>(d);
      const T rstd = T(1) / std::sqrt(square + static_cast<T>(a.eps));
      normalize_row<T>(x, a.weight, nullptr, a.y + r * d, d, T(0), rstd);
      if (a.rstd != nullptr) a.rstd[r] = rstd;
    }
  });
}

/// dx of one row. `centred` is whether the forward subtracted the mean.
template <class T>
HWY_INLINE void norm_backward_row(const LayerNormBackward<T>& a, int64_t r, T mean, bool centred,
                                  const T* ones) {
  const int64_t d = a.d;
  const T* x = a.x + r * d;
  const T* dy = a.dy + r * d;
  const T* weight = a.weight != nullptr ? a.weight : ones;
  const Vec<T> m = broadcast(mean), rstd = broadcast(a.rstd[r]);
  const auto plus = [](auto u, auto v) HWY_ATTR { return hn::Add(u, v); };
  const auto dot = [m](auto acc, auto v, auto g, auto w)
                       HWY_ATTR { return hn::MulAdd(hn::Sub(v, m), hn::Mul(g, w), acc); };
  const T scale = T(1) / static_cast<T>(d);
  const T along = total<T>(fold<T>(d, broadcast(T(0)), T(0), dot, plus, x, dy, weight)) * a.rstd[r] * scale;
  const T level = centred ? row_dot(dy, weight, d) * scale : T(0);
  const Vec<T> c = broadcast(along * a.rstd[r]), b = broadcast(level);
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

/// Both norms: rms passes mean = null. Rows are cut into fixed chunks whose partial weight gradients are
/// added in order.
template <class T>
void norm_backward(const LayerNormBackward<T>& a) {
  const int64_t d = a.d;
  const int64_t chunks = (a.rows + kRowsPerPartial - 1) / kRowsPerPartial;
  const bool weights = a.dweight != nullptr || a.dbias != nullptr;
  std::vector<T> partial(weights ? static_cast<std::size_t>(2 * chunks * d) : 0, T(0));
  const std::vector<T> ones(a.weight == nullptr ? static_cast<std::size_t>(d) : 0, T(1));
  parallel_for(chunks, row_grain(kRowsPerPartial * d), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin * kRowsPerPartial; r < std::min(a.rows, end * kRowsPerPartial); ++r) {
      const T mean = a.mean != nullptr ? a.mean[r] : T(0);
      if (weights) {  // before dx, which may overwrite dy
        T* dw = partial.data() + r / kRowsPerPartial * 2 * d;
        T* db = dw + d;
        const Vec<T> m = broadcast(mean), rstd = broadcast(a.rstd[r]);
        map_range<T>(
            0, d, dw,
            [=](auto acc, auto v, auto g)
                HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, m), rstd), g, acc); },
            static_cast<const T*>(dw), a.x + r * d, a.dy + r * d);
        map_range<T>(
            0, d, db, [](auto acc, auto g) HWY_ATTR { return hn::Add(acc, g); }, static_cast<const T*>(db),
            a.dy + r * d);
      }
      if (a.dx != nullptr) norm_backward_row(a, r, mean, a.mean != nullptr, ones.data());
    }
  });
  if (!weights) return;
  for (int64_t j = 0; j < d; ++j) {
    double dw = 0, db = 0;
    for (int64_t c = 0; c < chunks; ++c) {
      dw += static_cast<double>(partial[static_cast<std::size_t>(2 * c * d + j)]);
      db += static_cast<double>(partial[static_cast<std::size_t>((2 * c + 1) * d + j)]);
    }
    if (a.dweight != nullptr) a.dweight[j] = static_cast<T>(dw);
    if (a.dbias != nullptr) a.dbias[j] = static_cast<T>(db);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(layer_norm);
HEED_EXPORT(rms_norm);
HEED_EXPORT(norm_backward);

template <class T>
void layer_norm(const LayerNorm<T>& args) {
  HEED_DISPATCH(layer_norm, T)(args);
}
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& args) {
  HEED_DISPATCH(norm_backward, T)(args);
}
template <class T>
void rms_norm(const RmsNorm<T>& args) {
  HEED_DISPATCH(rms_norm, T)(args);
}
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args) {
  LayerNormBackward<T> same;
  same.rows = args.rows;
  same.d = args.d;
  same.x = args.x;
  same.weight = args.weight;
  same.rstd = args.rstd;
  same.dy = args.dy;
  same.dsum = args.dsum;
  same.dx = args.dx;
  same.dweight = args.dweight;
  HEED_DISPATCH(norm_backward, T)(same);
}

#define HEED_INSTANTIATE(T)                                       \
  template void layer_norm(const LayerNorm<T>&);                  \
  template void layer_norm_backward(const LayerNormBackward<T>&); \
  template void rms_norm(const RmsNorm<T>&);                      \
  template void rms_norm_backward(const RmsNormBackward<T>&);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
