// Attention forward. A task is a block of queries of one head: scores by one tile product with the packed
// keys, softmax row by row, a second tile product with the values. Tasks of one head follow one another, so a
// thread packs the head's keys and values once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention.h"
#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// What one thread needs: the packed keys and values of the head at hand, and a block's scores and outputs.
template <class T>
struct ForwardScratch {
  explicit ForwardScratch(const AttentionShape& s)
      : keys(s.head_dim, s.keys),
        values(s.keys + lanes<T>(), s.value_dim),
        scores(kQueryBlock, s.keys),
        out(kQueryBlock, s.value_dim),
        factors(1, s.keys) {}
  int64_t packed = -1;  // b * kv_heads + kv head of what is packed
  Scratch<T> keys, values, scores, out, factors;
};

template <class T>
class Forward {
 public:
  Forward(const AttentionShape& shape, const AttentionOptions<T>& options, const AttentionForward<T>& args)
      : s_(shape), o_(options), a_(args), rules_(shape, options), keep_(options.random, options.dropout) {
    blocks_ = (s_.queries + kQueryBlock - 1) / kQueryBlock;
    int64_t slots = 0;
    for (int64_t h = 0; h < s_.heads; ++h) {
      const bool wanted = a_.weights != nullptr && (a_.weight_heads == nullptr || a_.weight_heads[h]);
      slot_.push_back(wanted ? slots++ : -1);
    }
    slots_ = slots;
  }

  void run() const {
    const int64_t work = kQueryBlock * s_.keys * (s_.head_dim + s_.value_dim) / 8;
    parallel_for(s_.batch * s_.heads * blocks_, row_grain(work), [&](int64_t begin, int64_t end) HWY_ATTR {
      ForwardScratch<T> scratch(s_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / blocks_;
        block({head / s_.heads, head % s_.heads}, task % blocks_ * kQueryBlock, scratch);
      }
    });
  }

 private:
  void pack(HeadIndex at, ForwardScratch<T>& w) const {
    const int64_t kv = at.h / (s_.heads / s_.kv_heads);
    if (w.packed == at.b * s_.kv_heads + kv) return;
    w.packed = at.b * s_.kv_heads + kv;
    pack_transposed<T>(s_.keys, s_.head_dim, {head_of(a_.k, s_.k, at.b, kv), s_.k.row}, w.keys.rows());
    pack_rows<T>(s_.keys, s_.value_dim, {head_of(a_.v, s_.v, at.b, kv), s_.v.row}, w.values.rows());
  }

  void block(HeadIndex at, int64_t first, ForwardScratch<T>& w) const {
    const int64_t count = std::min(kQueryBlock, s_.queries - first);
    const Interval keys = rules_.visible_block(at.b, first, count);
    pack(at, w);
    const T* q = head_of(a_.q, s_.q, at.b, at.h) + first * s_.q.row;
    tile_multiply<T>(count, keys.end - keys.begin, s_.head_dim, Left<T>{q, s_.q.row, 1},
                     {w.keys.row(0) + keys.begin, w.keys.stride},
                     {w.scores.row(0) + keys.begin, w.scores.stride}, false);
    T inverse[kQueryBlock];
    for (int64_t i = 0; i < count; ++i) {
      inverse[i] = softmax_row(at, first + i, keys, w.scores.row(i));
      if (o_.dropout > 0) drop_row(at, first + i, w.factors.row(0), w.scores.row(i));
    }
    tile_multiply<T>(count, s_.value_dim, keys.end - keys.begin,
                     Left<T>{w.scores.row(0) + keys.begin, w.scores.stride, 1},
                     {w.values.row(keys.begin), w.values.stride}, w.out.rows(), false);
    for (int64_t i = 0; i < count; ++i) {
      T* o = head_of(a_.o, s_.o, at.b, at.h) + (first + i) * s_.o.row;
      const Vec<T> factor = broadcast(inverse[i]);
      map_range<T>(
          0, s_.value_dim, o, [=](auto v) HWY_ATTR { return hn::Mul(v, factor); },
          static_cast<const T*>(w.out.row(i)));
    }
  }

  /// Turns products into exp(score - max), 0 where nothing may be seen; returns what makes them sum to 1.
  HWY_INLINE T softmax_row(HeadIndex at, int64_t t, Interval block, T* row) const {
    const Interval keys = rules_.visible(at.b, t);
    clear_outside(block, keys, row);
    rules_.finish_row(at, t, keys, row);
    const int64_t n = keys.end - keys.begin;
    const T lowest = -std::numeric_limits<T>::infinity();
    const T largest = row_max(row + keys.begin, n);
    T inverse = 0, logsumexp = lowest;
    if (largest == lowest) {
      std::fill(row + keys.begin, row + keys.end, T(0));
    } else {
      const Vec<T> shift = broadcast(largest);
      map_range<T>(
          keys.begin, keys.end, row, [=](auto v) HWY_ATTR { return exp_of(hn::Sub(v, shift)); },
          static_cast<const T*>(row));
      const T sum = row_sum(row + keys.begin, n);
      inverse = T(1) / sum;
      logsumexp = largest + std::log(sum);
    }
    if (a_.logsumexp != nullptr) a_.logsumexp[(at.b * s_.heads + at.h) * s_.queries + t] = logsumexp;
    if (slot_[static_cast<std::size_t>(at.h)] >= 0) write_weights(at, t, keys, row, inverse);
    return inverse;
  }

  void write_weights(HeadIndex at, int64_t t, Interval keys, const T* row, T inverse) const {
    const int64_t slot = at.b * slots_ + slot_[static_cast<std::size_t>(at.h)];
    T* weights = a_.weights + (slot * s_.queries + t) * s_.keys;
    clear_outside({0, s_.keys}, keys, weights);
    for (int64_t s = keys.begin; s < keys.end; ++s) weights[s] = row[s] * inverse;
  }

  HWY_INLINE void drop_row(HeadIndex at, int64_t t, T* factors, T* row) const {
    const Interval keys = rules_.visible(at.b, t);
    keep_.factors(rules_.dropout_index(at, t, keys.begin), keys.end - keys.begin, factors + keys.begin);
    multiply_row(keys, factors, row);
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const AttentionForward<T>& a_;
  Scores<T> rules_;
  Keep keep_;
  int64_t blocks_ = 0;
  int64_t slots_ = 0;
  std::vector<int64_t> slot_;  // of each head among those whose weights are wanted, or -1
};

template <class T>
void attention(const AttentionShape& shape, const AttentionOptions<T>& options,
               const AttentionForward<T>& args) {
  Forward<T>(shape, options, args).run();
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(attention);

template <class T>
void attention(const AttentionShape& shape, const AttentionOptions<T>& options,
               const AttentionForward<T>& args) {
  HEED_DISPATCH(attention, T)(shape, options, args);
}
template void attention(const AttentionShape&, const AttentionOptions<float>&,
                        const AttentionForward<float>&);
template void attention(const AttentionShape&, const AttentionOptions<double>&,
                        const AttentionForward<double>&);

}  // namespace heed::kernels
#endif
