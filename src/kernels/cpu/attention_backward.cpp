// Attention backward. With P = softmax of the scores, recomputed from their logsumexp, and Z the dropout
// factors:
//   dV = (P Z)^T dO,  dS = P (Z (dO V^T) - D) with D = rowsum(dO O),  dQ = scale dS K,  dK = scale dS^T Q,
// dS times the derivative of the cap where scores are capped.
//
// Keys and queries are cut into spans. A task takes one span of keys with one of queries and adds to the
// gradients of both; in round r, span i of keys meets span (i + r) % n of queries, so that no two tasks of a
// round add to the same place, and every place is added to in an order that no number of threads changes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention.h"
#include "kernels/cpu/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
class Backward {
 public:
  static constexpr int64_t W = kTileQueries<T>;

  Backward(const AttentionShape& shape, const AttentionOptions<T>& options, const AttentionBackward<T>& args)
      : s_(shape),
        o_(options),
        a_(args),
        mask_and_bias_(shape, options),
        keep_(options.random, options.dropout),
        deltas_(1, shape.batch * shape.heads * shape.queries),
        delta_(deltas_.data()) {
    const int64_t longest = std::max(s_.queries, s_.keys);
    span_ = 512;  // short heads, when there are few, are cut smaller to occupy many threads
    while (span_ > 128 && s_.batch * s_.kv_heads * longest < 16 * span_) span_ /= 2;
    const bool one_place = o_.bias_strides.query == 0 && o_.bias_strides.key == 0;
    if (a_.dbias != nullptr && one_place) span_ = std::max<int64_t>(longest, 1);
    spans_ = (longest + span_ - 1) / span_;
  }

  void run() const {
    if (s_.batch * s_.heads == 0) return;
    if (!a_.partial) clear();
    if (s_.queries * s_.keys == 0) return;
    find_levels();
    // Where batches or heads share a bias, or batches their keys, one task does them all.
    const bool shared = a_.dbias != nullptr, shared_keys = a_.partial && a_.dk_strides.batch == 0;
    const int64_t batches = shared_keys || (shared && o_.bias_strides.batch == 0) ? s_.batch : 1;
    const int64_t heads = shared && o_.bias_strides.head == 0 ? s_.kv_heads : 1;
    const int64_t columns = s_.kv_heads / heads, owners = s_.batch / batches * columns;
    const int64_t step = spreading_step(spans_), work = span_ * span_ * (s_.head_dim + s_.value_dim) / 4;
    const bool relative = a_.d_relative_bias != nullptr;
    const Workspaces<T> distances(1, relative ? s_.batch * s_.heads * spans_ * distance_row() : 0);
    T* const by_distance = relative ? distances.data() : nullptr;
    const int64_t tasks = owners * spans_, grain = row_grain(work), width = std::min(span_, s_.keys);
    const int64_t team = team_size(tasks, grain);
    const Workspaces<T> workspaces(team, BackwardWorkspace<T>::numbers(s_, width, mask_and_bias_.has_cap()));
    for (int64_t round = 0; round < spans_; ++round) {
      parallel_for_team(team, tasks, grain, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
        BackwardWorkspace<T> workspace(s_, width, mask_and_bias_.has_cap(), workspaces.at(member));
        for (int64_t task = begin; task < end; ++task) {
          const int64_t owner = task / spans_, i = task % spans_ * step % spans_;
          for (int64_t b = 0; b < batches; ++b) {
            for (int64_t kv = 0; kv < heads; ++kv) {
              block_pair(owner / columns * batches + b, owner % columns * heads + kv, i, (i + round) % spans_,
                         by_distance, workspace);
            }
          }
        }
      });
      if (relative) add_distances(round, by_distance);
    }
  }

 private:
  Interval span_of(int64_t i, int64_t n) const { return both({i * span_, (i + 1) * span_}, {0, n}); }

  /// Zeroes all gradients; those of a repeated bias once or more.
  void clear() const {
    const auto rows = [&](T* to, const AttentionStrides& m, int64_t heads, int64_t n, int64_t width) {
      if (to == nullptr) return;
      parallel_for(s_.batch * heads * n, row_grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          T* row = to + i / (heads * n) * m.batch + i / n % heads * m.head + i % n * m.row;
          std::fill(row, row + width, T(0));
        }
      });
    };
    rows(a_.dq, a_.dq_strides, s_.heads, s_.queries, s_.head_dim);
    rows(a_.dk, a_.dk_strides, s_.kv_heads, s_.keys, s_.head_dim);
    rows(a_.dv, a_.dv_strides, s_.kv_heads, s_.keys, s_.value_dim);
    if (a_.d_relative_bias != nullptr) {
      const int64_t width = std::max<int64_t>(s_.queries + s_.keys - 1, 0);
      std::fill(a_.d_relative_bias, a_.d_relative_bias + s_.heads * width, T(0));
    }
    if (a_.dbias == nullptr) return;
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

  /// delta_ [B, H, T] = rowsum(dO O)
  void find_levels() const {
    const int64_t n = s_.heads * s_.queries;
    parallel_for(s_.batch * n, row_grain(s_.value_dim), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / n, h = i / s_.queries % s_.heads, t = i % s_.queries;
        delta_[i] = row_dot(head_of(a_.o, s_.o, b, h) + t * s_.o.row,
                            head_of(a_.d_o, a_.d_o_strides, b, h) + t * a_.d_o_strides.row, s_.value_dim);
      }
    });
  }

  /// One span of the keys of a key-value head with one span of the queries that read it.
  void block_pair(int64_t b, int64_t kv, int64_t key_span, int64_t query_span, T* by_distance,
                  BackwardWorkspace<T>& w) const {
    const Interval keys = span_of(key_span, s_.keys), queries = span_of(query_span, s_.queries);
    if (by_distance != nullptr) {
      const int64_t group = s_.heads / s_.kv_heads;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        T* row = distances_of(by_distance, {b, h}, key_span);
        std::fill(row, row + distance_row(), T(0));
      }
    }
    if (keys.empty() || queries.empty()) return;
    const Interval seen = both(keys, mask_and_bias_.visible_block(b, queries.begin, queries.size()));
    if (seen.empty()) return;
    const RowMajor<const T> k = rows_of<T>(head_of(a_.k, s_.k, b, kv) + seen.begin * s_.k.row, s_.k.row,
                                           seen.size(), s_.head_dim, w.keys);
    const RowMajor<const T> v = rows_of<T>(head_of(a_.v, s_.v, b, kv) + seen.begin * s_.v.row, s_.v.row,
                                           seen.size(), s_.value_dim, w.values);
    std::fill(w.dk, w.dk + seen.size() * w.d, T(0));
    std::fill(w.dv, w.dv + seen.size() * w.e, T(0));
    const int64_t group = s_.heads / s_.kv_heads;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      T* row = by_distance == nullptr ? nullptr : distances_of(by_distance, {b, h}, key_span);
      for (int64_t t = queries.begin; t < queries.end; t += W) {
        const TileQueries tile{{b, h}, t, std::min(W, queries.end - t)};
        // The row starts at the distance of the span's first query from its last key.
        T* from = row == nullptr ? nullptr : row + (t - queries.begin) + (keys.end - seen.end);
        take_tile(tile, seen, k, v, from, w);
      }
    }
    add_rows(w.dk, w.d, static_cast<T>(o_.scale), seen, s_.head_dim, a_.dk, a_.dk_strides, b, kv);
    add_rows(w.dv, w.e, T(1), seen, s_.value_dim, a_.dv, a_.dv_strides, b, kv);
  }

  /// One tile of queries with the keys `span`.
  void take_tile(const TileQueries& q, Interval span, RowMajor<const T> k, RowMajor<const T> v,
                 T* by_distance, BackwardWorkspace<T>& w) const {
    const Interval seen = both(span, mask_and_bias_.visible_block(q.at.b, q.first, q.count));
    if (seen.empty()) return;
    const T* q_from = head_of(a_.q, s_.q, q.at.b, q.at.h) + q.first * s_.q.row;
    const T* do_from = head_of(a_.d_o, a_.d_o_strides, q.at.b, q.at.h) + q.first * a_.d_o_strides.row;
    const T factor = mask_and_bias_.query_factor();
    pack_transposed<T>(q.count, s_.head_dim, {q_from, s_.q.row}, {w.q_turned, W}, W, {&factor, 0});
    pack_transposed<T>(q.count, s_.value_dim, {do_from, a_.d_o_strides.row}, {w.do_turned, W}, W);
    w.q_from = rows_of<T>(q_from, s_.q.row, q.count, s_.head_dim, w.q_rows);
    w.do_from = rows_of<T>(do_from, a_.d_o_strides.row, q.count, s_.value_dim, w.do_rows);
    const int64_t first = (q.at.b * s_.heads + q.at.h) * s_.queries + q.first;
    // Infinity makes a probability 0: beside the queries, and for one that saw nothing.
    std::fill(w.shift, w.shift + W, std::numeric_limits<T>::infinity());
    std::fill(w.delta, w.delta + W, T(0));
    for (int64_t i = 0; i < q.count; ++i) {
      const T logsumexp = a_.logsumexp[first + i];
      if (logsumexp != -std::numeric_limits<T>::infinity()) w.shift[i] = logsumexp * kLog2e<T>;
      w.delta[i] = delta_[first + i];
    }
    std::fill(w.dq, w.dq + q.count * w.d, T(0));
    // Where a tile has all keys of its queries, D is the sum of P dP: its rounding is that of dP itself, and
    // leaves of a query that sees one key nothing, as it should.
    const Interval all = mask_and_bias_.visible_block(q.at.b, q.first, q.count);
    const bool whole =
        all.size() <= kBackwardKeys && seen.size() == all.size() && o_.dropout == 0 && !a_.partial;
    for (int64_t s = seen.begin; s < seen.end; s += kBackwardKeys) {
      const Interval keys{s, std::min(s + kBackwardKeys, seen.end)};
      const TileParts parts = cut_tile(mask_and_bias_, q, s, keys);
      for (const TilePart& part : parts) differentiate(q, part, span, s, whole, k, v, w);
      if (whole) recenter(q, parts, s, w);
      for (const TilePart& part : parts) take_part(q, part, span, s, k, by_distance, w);
    }
    if (a_.dq == nullptr) return;
    const Interval queries{q.first, q.first + q.count};
    add_rows(w.dq, w.d, static_cast<T>(o_.scale), queries, s_.head_dim, a_.dq, a_.dq_strides, q.at.b, q.at.h);
  }

  /// Of some of a tile's queries and keys that they see: P Z, and dS, or dP where D is still to come.
  void differentiate(const TileQueries& tile, const TilePart& part, Interval span, int64_t block, bool whole,
                     RowMajor<const T> k, RowMajor<const T> v, BackwardWorkspace<T>& w) const {
    const TileQueries q = queries_of(tile, part);
    const int64_t n = part.keys.size(), skip = part.keys.begin - span.begin, lane = part.lanes.begin;
    const int64_t width = part.lanes.size();
    T *p = w.p + rows_of_part<T>(part, block), *ds = w.ds + rows_of_part<T>(part, block);
    const T *kb = k.data + skip * k.stride, *vb = v.data + skip * v.stride;
    tile_multiply<Into::c, false, T>(n, width, s_.head_dim, {kb, k.stride, 1}, {w.q_turned + lane, W},
                                     {p, W});
    tile_multiply<Into::c, false, T>(n, width, s_.value_dim, {vb, v.stride, 1}, {w.do_turned + lane, W},
                                     {ds, W});
    const T *shift = w.shift + lane, *delta = w.delta + lane;
    T* slopes = w.slopes == nullptr ? nullptr : w.slopes + rows_of_part<T>(part, block);
    finish_tile(mask_and_bias_, q, part.keys, w.tile_room, p, slopes);
    const bool drops = o_.dropout > 0;
    if (drops) dropout_tile(mask_and_bias_, keep_, q, part.keys, w.tile_room);
    each_vector<T>(q, n, [&](int64_t, int64_t i, int64_t at) HWY_ATTR {
      const Vec<T> weight = exp2_of(hn::Sub(load(p + at), load(shift + i)));
      Vec<T> dp = load(ds + at), kept = weight;
      if (drops) {
        const Vec<T> factor = load(w.tile_room.by_key + at);
        dp = hn::Mul(dp, factor);
        kept = hn::Mul(weight, factor);
      }
      store<T>(kept, p + at);
      store<T>(whole ? dp : hn::Mul(weight, hn::Sub(dp, load(delta + i))), ds + at);
    });
  }

  /// Adds a part's P Z and dS to the gradients.
  void take_part(const TileQueries& tile, const TilePart& part, Interval span, int64_t block,
                 RowMajor<const T> k, T* by_distance, BackwardWorkspace<T>& w) const {
    const TileQueries q = queries_of(tile, part);
    const int64_t n = part.keys.size(), skip = part.keys.begin - span.begin, lane = part.lanes.begin;
    const T* p = w.p + rows_of_part<T>(part, block);
    T* ds = w.ds + rows_of_part<T>(part, block);
    const RowMajor<const T> kb{k.data + skip * k.stride, k.stride};
    const RowMajor<const T> q_rows{w.q_from.data + lane * w.q_from.stride, w.q_from.stride};
    const RowMajor<const T> do_rows{w.do_from.data + lane * w.do_from.stride, w.do_from.stride};
    if (a_.dbias != nullptr) add_dbias(q, part.keys, ds, w);
    if (by_distance != nullptr) {
      T* from = by_distance + lane + (span.end - part.keys.end);
      each_vector<T>(q, n, [&](int64_t i, int64_t w_lane, int64_t at) HWY_ATTR {
        T* to = from + n - 1 - i + w_lane;
        store<T>(hn::Add(load(to), load(ds + at)), to);
      });
    }
    if (w.slopes != nullptr) {  // from the gradient of capped scores to that of the products
      const T* slopes = w.slopes + rows_of_part<T>(part, block);
      each_vector<T>(q, n, [&](int64_t, int64_t, int64_t at) HWY_ATTR {
        store<T>(hn::Mul(load(ds + at), load(slopes + at)), ds + at);
      });
    }
    tile_multiply<Into::sum, false, T>(n, w.e, q.count, {p, W, 1}, do_rows, {w.dv + skip * w.e, w.e});
    tile_multiply<Into::sum, false, T>(n, w.d, q.count, {ds, W, 1}, q_rows, {w.dk + skip * w.d, w.d});
    tile_multiply<Into::sum, true, T>(q.count, w.d, n, {ds, 1, W}, kb, {w.dq + lane * w.d, w.d});
  }

  void add_dbias(const TileQueries& q, Interval keys, const T* ds, BackwardWorkspace<T>& w) const {
    const MaskStrides& m = o_.bias_strides;
    pack_transposed<T>(keys.size(), q.count, {ds, W}, {w.tile_room.by_query, kKeyBlock}, kKeyBlock);
    for (int64_t i = 0; i < q.count; ++i) {
      T* to = a_.dbias + q.at.b * m.batch + q.at.h * m.head + (q.first + i) * m.query + keys.begin * m.key;
      const T* from = w.tile_room.by_query + i * kKeyBlock;
      for (int64_t j = 0; j < keys.size(); ++j) to[j * m.key] += from[j];
    }
  }

  /// Numbers by distance of one (batch, head, span of keys), the last tile's empty lanes included.
  int64_t distance_row() const { return 2 * span_ + W; }
  T* distances_of(T* by_distance, HeadIndex at, int64_t key_span) const {
    return by_distance + ((at.b * s_.heads + at.h) * spans_ + key_span) * distance_row();
  }
  /// d_relative_bias += what the round's tasks left, in a fixed order.
  void add_distances(int64_t round, T* by_distance) const {
    parallel_for(s_.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        for (int64_t b = 0; b < s_.batch; ++b) {
          for (int64_t i = 0; i < spans_; ++i) {
            const Interval keys = span_of(i, s_.keys), queries = span_of((i + round) % spans_, s_.queries);
            if (keys.empty() || queries.empty()) continue;
            const T* row = distances_of(by_distance, {b, h}, i);
            const int64_t nearest = mask_and_bias_.position(b, queries.begin) - (keys.end - 1);
            for (int64_t j = 0; j < keys.size() + queries.size() - 1; ++j) {
              a_.d_relative_bias[mask_and_bias_.relative(h, nearest + j)] += row[j];
            }
          }
        }
      }
    });
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const AttentionBackward<T>& a_;
  MaskAndBias<T> mask_and_bias_;
  Keep keep_;
  Workspaces<T> deltas_;
  T* delta_;
  int64_t span_ = 0, spans_ = 0;
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
