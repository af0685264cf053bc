// Additive attention scores. Forward, a query's row of scores is one thread's. Backward, a thread has some
// columns of a row of the batch: all its queries, keys and gradients of these columns fit its cache, and no
// other thread adds to them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/additive.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention_variants.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// A tanh costs as much as some sixteen element-wise operations.
inline int64_t tanh_grain(int64_t row) { return row_grain(16 * row); }

template <class T>
void additive_forward(const AdditiveOperands<T>& a, T* scores) {
  const int64_t dim = a.dim;
  const T* v = a.v;
  const auto plus = [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); };
  const auto weighted = [](auto sum, auto q, auto k, auto w)
                            HWY_ATTR { return hn::MulAdd(w, tanh_of(hn::Add(q, k)), sum); };
  parallel_for(a.batch * a.queries, tanh_grain(a.keys * dim), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const T *q = a.q + row * dim, *k = a.k + row / a.queries * a.keys * dim;
      for (int64_t s = 0; s < a.keys; ++s) {
        const Vec<T> sum = fold<T>(dim, broadcast(T(0)), T(0), weighted, plus, q, k + s * dim, v);
        scores[row * a.keys + s] = total<T>(sum);
      }
    }
  });
}

/// The gradients of `count` columns from `column` on, at most one vector.
template <class T>
HWY_INLINE void backward_columns(const AdditiveOperands<T>& a, int64_t b, int64_t column, int64_t count,
                                 const T* dscores, T* dq, T* dk, T* dv) {
  const bool whole = count == lanes<T>();
  const auto get = [&](const T* p) HWY_ATTR { return whole ? load(p) : load_first(p, count); };
  const auto put = [&](Vec<T> x, T* p) HWY_ATTR {
    if (whole) {
      store<T>(x, p);
    } else {
      store_first<T>(x, p, count);
    }
  };
  const int64_t dim = a.dim;
  const T *q = a.q + b * a.queries * dim + column, *k = a.k + b * a.keys * dim + column;
  const Vec<T> v = get(a.v + column), one = broadcast(T(1));
  Vec<T> along = broadcast(T(0));
  for (int64_t s = 0; s < a.keys; ++s) put(along, dk + (b * a.keys + s) * dim + column);
  for (int64_t t = 0; t < a.queries; ++t) {
    const Vec<T> query = get(q + t * dim);
    Vec<T> dquery = broadcast(T(0));
    for (int64_t s = 0; s < a.keys; ++s) {
      const Vec<T> d = broadcast(dscores[(b * a.queries + t) * a.keys + s]);
      const Vec<T> value = tanh_of(hn::Add(query, get(k + s * dim)));
      const Vec<T> slope = hn::Mul(hn::Mul(d, v), hn::NegMulAdd(value, value, one));
      T* key = dk + (b * a.keys + s) * dim + column;
      along = hn::MulAdd(d, value, along);
      dquery = hn::Add(dquery, slope);
      put(hn::Add(get(key), slope), key);
    }
    put(dquery, dq + (b * a.queries + t) * dim + column);
  }
  put(along, dv + b * dim + column);
}

template <class T>
void additive_backward(const AdditiveOperands<T>& a, const T* dscores, T* dq, T* dk, T* dv_rows) {
  constexpr int64_t N = lanes<T>();
  const int64_t columns = (a.dim + N - 1) / N;
  parallel_for(
      a.batch * columns, tanh_grain(a.queries * a.keys * N), [=](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t column = i % columns * N;
          backward_columns(a, i / columns, column, std::min(N, a.dim - column), dscores, dq, dk, dv_rows);
        }
      });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(additive_forward);
HEED_EXPORT(additive_backward);

template <class T>
void additive_scores(const AdditiveOperands<T>& operands, T* scores) {
  HEED_DISPATCH(additive_forward, T)(operands, scores);
}
template <class T>
void additive_scores_backward(const AdditiveOperands<T>& operands, const T* dscores, T* dq, T* dk,
                              T* dv_rows) {
  HEED_DISPATCH(additive_backward, T)(operands, dscores, dq, dk, dv_rows);
}

#define HEED_INSTANTIATE(T)                                      \
  template void additive_scores(const AdditiveOperands<T>&, T*); \
  template void additive_scores_backward(const AdditiveOperands<T>&, const T*, T*, T*, T*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
