// Attention backward. With P = softmax of the scores, recomputed from their logsumexp, and Z the dropout
// factors:
//   dV = (P Z)^T dO,  dS = P (Z (dO V^T) - D) with D = rowsum(dO O),  dQ = scale dS K,  dK = scale dS^T Q.
// A task owns everything it adds to: one key-value head with all the query heads that read it, and, where a
// bias is shared by several batches or heads and its gradient is wanted, all of those.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention.h"
#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
struct BackwardScratch {
  explicit BackwardScratch(const AttentionShape& s)
      : keys_transposed(s.head_dim, s.keys),
        values_transposed(s.value_dim, s.keys),
        keys(s.keys + lanes<T>(), s.head_dim),
        dk(s.keys + lanes<T>(), s.head_dim),
        dv(s.keys + lanes<T>(), s.value_dim),
        q(kQueryBlock, s.head_dim),
        d_o(kQueryBlock, s.value_dim),
        dq(kQueryBlock, s.head_dim),
        p(kQueryBlock, s.keys),
        ds(kQueryBlock, s.keys),
        factors(1, s.keys) {}
  Scratch<T> keys_transposed, values_transposed, keys, dk, dv;  // of the key-value head at hand
  Scratch<T> q, d_o, dq, p, ds, factors;                        // of the block of queries at hand
};

template <class T>
class Backward {
 public:
  Backward(const AttentionShape& shape, const AttentionOptions<T>& options, const AttentionBackward<T>& args)
      : s_(shape), o_(options), a_(args), rules_(shape, options), keep_(options.random, options.dropout) {}

  void run() const {
    if (s_.batch * s_.heads == 0) return;
    if (a_.dbias != nullptr) clear_dbias();
    if (a_.d_relative_bias != nullptr) {
      const int64_t width = std::max<int64_t>(s_.queries + s_.keys - 1, 0);
      std::fill(a_.d_relative_bias, a_.d_relative_bias + s_.heads * width, T(0));
    }
    const bool shared = a_.dbias != nullptr;
    const bool one_task = a_.d_relative_bias != nullptr || (shared && o_.bias_strides.batch == 0);
    const int64_t batches = one_task ? s_.batch : 1;
    const int64_t heads = shared && o_.bias_strides.head == 0 ? s_.kv_heads : 1;
    const int64_t columns = s_.kv_heads / heads;
    const int64_t work = s_.queries * s_.keys * (s_.head_dim + s_.value_dim) / 4;
    parallel_for(s_.batch / batches * columns, row_grain(work), [&](int64_t begin, int64_t end) HWY_ATTR {
      BackwardScratch<T> scratch(s_);
      for (int64_t task = begin; task < end; ++task) {
        for (int64_t b = 0; b < batches; ++b) {
          for (int64_t kv = 0; kv < heads; ++kv) {
            key_value_head(task / columns * batches + b, task % columns * heads + kv, scratch);
          }
        }
      }
    });
  }

 private:
  /// Zeroes dbias, every element once or more.
  void clear_dbias() const {
    const MaskStrides& m = o_.bias_strides;
    for (int64_t b = 0; b < (m.batch == 0 ? 1 : s_.batch); ++b) {
      for (int64_t h = 0; h < (m.head == 0 ? 1 : s_.heads); ++h) {
        for (int64_t t = 0; t < (m.query == 0 ? 1 : s_.queries); ++t) {
          for (int64_t s = 0; s < (m.key == 0 ? 1 : s_.keys); ++s) {
            a_.dbias[b * m.batch + h * m.head + t * m.query + s * m.key] = T(0);
          }
        }
      }
    }
  }

  void key_value_head(int64_t b, int64_t kv, BackwardScratch<T>& w) const {
    const Rows<const T> k{head_of(a_.k, s_.k, b, kv), s_.k.row}, v{head_of(a_.v, s_.v, b, kv), s_.v.row};
    pack_transposed<T>(s_.keys, s_.head_dim, k, w.keys_transposed.rows());
    pack_transposed<T>(s_.keys, s_.value_dim, v, w.values_transposed.rows());
    pack_rows<T>(s_.keys, s_.head_dim, k, w.keys.rows());
    std::fill(w.dk.data.begin(), w.dk.data.end(), T(0));
    std::fill(w.dv.data.begin(), w.dv.data.end(), T(0));
    const int64_t group = s_.heads / s_.kv_heads;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t first = 0; first < s_.queries; first += kQueryBlock) block({b, h}, first, w);
    }
    if (a_.dk != nullptr) {
      write(w.dk, s_.keys, s_.head_dim, static_cast<T>(o_.scale), head_of(a_.dk, a_.dk_strides, b, kv),
            a_.dk_strides.row);
    }
    if (a_.dv != nullptr) {
      write(w.dv, s_.keys, s_.value_dim, T(1), head_of(a_.dv, a_.dv_strides, b, kv), a_.dv_strides.row);
    }
  }

  void block(HeadIndex at, int64_t first, BackwardScratch<T>& w) const {
    const int64_t count = std::min(kQueryBlock, s_.queries - first);
    const Interval keys = rules_.visible_block(at.b, first, count);
    const int64_t n = keys.end - keys.begin;
    pack_rows<T>(count, s_.head_dim, {head_of(a_.q, s_.q, at.b, at.h) + first * s_.q.row, s_.q.row},
                 w.q.rows());
    pack_rows<T>(
        count, s_.value_dim,
        {head_of(a_.d_o, a_.d_o_strides, at.b, at.h) + first * a_.d_o_strides.row, a_.d_o_strides.row},
        w.d_o.rows());
    const Rows<T> p{w.p.row(0) + keys.begin, w.p.stride}, ds{w.ds.row(0) + keys.begin, w.ds.stride};
    tile_multiply<T>(count, n, s_.head_dim, Left<T>{w.q.row(0), w.q.stride, 1},
                     {w.keys_transposed.row(0) + keys.begin, w.keys_transposed.stride}, p, false);
    tile_multiply<T>(count, n, s_.value_dim, Left<T>{w.d_o.row(0), w.d_o.stride, 1},
                     {w.values_transposed.row(0) + keys.begin, w.values_transposed.stride}, ds, false);
    for (int64_t i = 0; i < count; ++i) row_gradient(at, first + i, i, keys, w);
    if (a_.dv != nullptr) {  // (P Z)^T dO
      tile_multiply<T>(n, s_.value_dim, count, Left<T>{p.data, 1, p.stride}, {w.d_o.row(0), w.d_o.stride},
                       {w.dv.row(keys.begin), w.dv.stride}, true);
    }
    if (a_.dk != nullptr) {  // dS^T Q
      tile_multiply<T>(n, s_.head_dim, count, Left<T>{ds.data, 1, ds.stride}, {w.q.row(0), w.q.stride},
                       {w.dk.row(keys.begin), w.dk.stride}, true);
    }
    if (a_.dq != nullptr) {  // dS K
      tile_multiply<T>(count, s_.head_dim, n, Left<T>{ds.data, ds.stride, 1},
                       {w.keys.row(keys.begin), w.keys.stride}, w.dq.rows(), false);
      write(w.dq, count, s_.head_dim, static_cast<T>(o_.scale),
            head_of(a_.dq, a_.dq_strides, at.b, at.h) + first * a_.dq_strides.row, a_.dq_strides.row);
    }
  }

  /// From the products q . k and dO . v of a row: P Z in w.p and dS in w.ds, 0 where nothing was seen.
  HWY_INLINE void row_gradient(HeadIndex at, int64_t t, int64_t i, Interval block,
                               BackwardScratch<T>& w) const {
    const Interval keys = rules_.visible(at.b, t);
    T* p = w.p.row(i);
    T* ds = w.ds.row(i);
    const T logsumexp = a_.logsumexp[(at.b * s_.heads + at.h) * s_.queries + t];
    if (logsumexp == -std::numeric_limits<T>::infinity()) {
      clear_outside(block, {block.end, block.end}, p);
      clear_outside(block, {block.end, block.end}, ds);
      return;
    }
    clear_outside(block, keys, p);
    clear_outside(block, keys, ds);
    rules_.finish_row(at, t, keys, p);
    const Vec<T> shift = broadcast(logsumexp);
    map_range<T>(
        keys.begin, keys.end, p, [=](auto v) HWY_ATTR { return exp_of(hn::Sub(v, shift)); },
        static_cast<const T*>(p));
    T* factors = w.factors.row(0);
    if (o_.dropout > 0) {
      keep_.factors(rules_.dropout_index(at, t, keys.begin), keys.end - keys.begin, factors + keys.begin);
      multiply_row(keys, factors, ds);
    }
    const T* o = head_of(a_.o, s_.o, at.b, at.h) + t * s_.o.row;
    const Vec<T> level = broadcast(row_dot(static_cast<const T*>(w.d_o.row(i)), o, s_.value_dim));
    map_range<T>(
        keys.begin, keys.end, ds, [=](auto g, auto v) HWY_ATTR { return hn::Mul(v, hn::Sub(g, level)); },
        static_cast<const T*>(ds), static_cast<const T*>(p));
    if (o_.dropout > 0) multiply_row(keys, factors, p);
    if (a_.dbias != nullptr) add_dbias(at, t, keys, ds);
    if (a_.d_relative_bias != nullptr) {
      for (int64_t s = keys.begin; s < keys.end; ++s) a_.d_relative_bias[rules_.relative(at, t, s)] += ds[s];
    }
  }

  HWY_INLINE void add_dbias(HeadIndex at, int64_t t, Interval keys, const T* ds) const {
    const MaskStrides& m = o_.bias_strides;
    T* dbias = a_.dbias + at.b * m.batch + at.h * m.head + t * m.query;
    for (int64_t s = keys.begin; s < keys.end; ++s) dbias[s * m.key] += ds[s];
  }

  HWY_INLINE void write(const Scratch<T>& from, int64_t rows, int64_t n, T factor, T* to,
                        int64_t stride) const {
    const Vec<T> f = broadcast(factor);
    for (int64_t i = 0; i < rows; ++i) {
      map_range<T>(
          0, n, to + i * stride, [=](auto v) HWY_ATTR { return hn::Mul(v, f); }, from.row(i));
    }
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const AttentionBackward<T>& a_;
  Scores<T> rules_;
  Keep keep_;
};

template <class T>
void attention_backward(const AttentionShape& shape, const AttentionOptions<T>& options,
                        const AttentionBackward<T>& args) {
  Backward<T>(shape, options, args).run();
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(attention_backward);

template <class T>
void attention_backward(const AttentionShape& shape, const AttentionOptions<T>& options,
                        const AttentionBackward<T>& args) {
  HEED_DISPATCH(attention_backward, T)(shape, options, args);
}
template void attention_backward(const AttentionShape&, const AttentionOptions<float>&,
                                 const AttentionBackward<float>&);
template void attention_backward(const AttentionShape&, const AttentionOptions<double>&,
                                 const AttentionBackward<double>&);

}  // namespace heed::kernels
#endif
