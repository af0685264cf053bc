// Linear attention by chunks of tokens. Every row of v gets a last element of 1, so that z is the last column
// of S and the denominator the last element of a result. With the chunks' sums R_c = sum over s in c of
// phi(k_s) v_s^T, a query of chunk c has S from the chunks before c, and the products with the keys of its
// own chunk up to itself. Backward, with g_t = [dO_t, -dO_t . o_t] / (z_t . phi(q_t)):
//
//   dphi(q_t) = S_t g_t,  dphi(k_s) = G_s v_s,  dv_s = G_s^T phi(k_s),  G_s = sum of phi(q_t) g_t^T
//
// over the queries t that see key s: the same sums, from the last chunk to the first.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_attention.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention_variants.h"
#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Tokens of a chunk, and rows of it whose products with the chunk are made at a time.
inline constexpr int64_t kLinearChunk = kLinearAttentionChunk;
inline constexpr int64_t kLinearRows = 16;

inline int64_t chunks_of(int64_t n) { return std::max<int64_t>(1, (n + kLinearChunk - 1) / kLinearChunk); }
inline Interval chunk_at(int64_t c, int64_t n) {
  return {c * kLinearChunk, std::min((c + 1) * kLinearChunk, n)};
}

/// phi(x) = elu(x) + 1.
template <class V>
HWY_INLINE V feature_of(V x) {
  const hn::DFromV<V> d;
  const auto positive = hn::Gt(x, hn::Zero(d));
  return hn::IfThenElse(positive, hn::Add(x, hn::Set(d, 1)),
                        exp_of(hn::IfThenZeroElse(positive, x)));  // not Min, which may drop a NaN
}

/// Widths in whole vectors, and what one thread needs for a chunk.
template <class T>
struct ChunkWorkspace {
  static int64_t numbers(const AttentionShape& s) {
    const int64_t d = padded<T>(s.head_dim), e = padded<T>(s.value_dim + 1);
    return 4 * kLinearChunk * (d + e) + kLinearChunk * kLinearRows + 3 * d * e + 16 * 16;
  }
  ChunkWorkspace(const AttentionShape& s, Workspace<T> from)
      : d(padded<T>(s.head_dim)),
        e(padded<T>(s.value_dim + 1)),
        q(from.take(kLinearChunk * d)),
        k(from.take(kLinearChunk * d)),
        v(from.take(kLinearChunk * e)),
        g(from.take(kLinearChunk * e)),
        keys_turned(from.take(kLinearChunk * d)),
        values_turned(from.take(kLinearChunk * e)),
        by_key(from.take(kLinearChunk * d)),
        by_value(from.take(kLinearChunk * e)),
        products(from.take(kLinearRows * kLinearChunk)),
        state_turned(from.take(e * d)),
        state(from.take(d * e)),
        sum(from.take(d * e)) {}

  int64_t d, e;                    // head_dim, and value_dim + 1
  T *q, *k;                        // phi(q) and phi(k), [kLinearChunk, d]
  T *v, *g;                        // [kLinearChunk, e]
  T *keys_turned, *values_turned;  // [d, kLinearChunk] and [e, kLinearChunk]
  T *by_key, *by_value;            // results, [kLinearChunk, d] and [kLinearChunk, e]
  T* products;                     // [kLinearRows, kLinearChunk]
  T* state_turned;                 // [e, d]
  T *state, *sum;                  // [d, e]: of the chunks so far, and of the chunk itself
};

template <class T>
class LinearAttention {
 public:
  LinearAttention(const AttentionShape& shape, const LinearAttentionOptions& options)
      : s_(shape),
        o_(options),
        group_(shape.heads / std::max<int64_t>(shape.kv_heads, 1)),
        e_(padded<T>(shape.value_dim + 1)),
        key_chunks_(chunks_of(shape.keys)),
        query_chunks_(chunks_of(shape.queries)) {}

  void forward(const LinearAttentionForward<T>& a) const {
    if (goes_by_heads()) return forward_by_heads(a);
    const Workspaces<T> sums(1, s_.batch * s_.kv_heads * key_chunks_ * state_size());
    T* const states = sums.data();
    each_chunk(s_.batch * s_.kv_heads, key_chunks_,
               [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
                 read_keys(a.k, a.v, {head / s_.kv_heads, head % s_.kv_heads}, chunk_at(c, s_.keys), w);
                 sum_keys(chunk_at(c, s_.keys), w, states + (head * key_chunks_ + c) * state_size());
               });
    accumulate(key_chunks_, false, a.state, states);
    each_chunk(s_.batch * s_.heads, query_chunks_,
               [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
                 const HeadIndex at{head / s_.heads, head % s_.heads};
                 if (o_.causal) read_keys(a.k, a.v, {at.b, at.h / group_}, chunk_at(c, s_.queries), w);
                 output(a, at, c, state_for(states, at.b, at.h / group_, c, key_chunks_), w);
               });
  }

  void backward(const LinearAttentionBackward<T>& a) const {
    if (goes_by_heads()) return backward_by_heads(a);
    const int64_t heads = s_.batch * s_.kv_heads;
    const Workspaces<T> sums(1, heads * (key_chunks_ + query_chunks_) * state_size());
    T *const states = sums.data(), *const later = states + heads * key_chunks_ * state_size();
    each_chunk(heads, key_chunks_, [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
      read_keys(a.k, a.v, {head / s_.kv_heads, head % s_.kv_heads}, chunk_at(c, s_.keys), w);
      sum_keys(chunk_at(c, s_.keys), w, states + (head * key_chunks_ + c) * state_size());
    });
    accumulate(key_chunks_, false, nullptr, states);
    each_chunk(heads, query_chunks_, [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
      T* const sum = later + (head * query_chunks_ + c) * state_size();
      std::fill(sum, sum + state_size(), T(0));
      for (int64_t i = 0; i < group_; ++i) {
        const HeadIndex at{head / s_.kv_heads, head % s_.kv_heads * group_ + i};
        read_queries(a.q, at, chunk_at(c, s_.queries), w);
        read_gradients(a, at, chunk_at(c, s_.queries), w);
        add_queries(chunk_at(c, s_.queries), w, sum);
      }
    });
    accumulate(query_chunks_, true, nullptr, later);
    each_chunk(s_.batch * s_.heads, query_chunks_,
               [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
                 const HeadIndex at{head / s_.heads, head % s_.heads};
                 if (o_.causal) read_keys(a.k, a.v, {at.b, at.h / group_}, chunk_at(c, s_.queries), w);
                 query_gradients(a, at, c, state_for(states, at.b, at.h / group_, c, key_chunks_), w);
               });
    each_chunk(heads, key_chunks_, [&](int64_t head, int64_t c, ChunkWorkspace<T>& w) HWY_ATTR {
      const HeadIndex at{head / s_.kv_heads, head % s_.kv_heads};
      key_gradients(a, at, c, state_for(later, at.b, at.h, c, query_chunks_), nullptr, w);
    });
  }

 private:
  int64_t state_size() const { return s_.head_dim * e_; }

  /// Calls fn(head, chunk, workspace) for each.
  template <class Fn>
  void each_chunk(int64_t heads, int64_t chunks, Fn fn) const {
    const int64_t tasks = heads * chunks, grain = row_grain(kLinearChunk * s_.head_dim * e_ / 8);
    const int64_t team = team_size(tasks, grain);
    const Workspaces<T> workspaces(team, ChunkWorkspace<T>::numbers(s_));
    parallel_for_team(team, tasks, grain, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
      ChunkWorkspace<T> workspace(s_, workspaces.at(member));
      for (int64_t task = begin; task < end; ++task) fn(task / chunks, task % chunks, workspace);
    });
  }

  /// to[i] = phi(from[i]) for `rows` of one head; zeros where `seen` is false.
  void read_features(const T* from, int64_t stride, Interval rows, const bool* seen, T* to,
                     int64_t width) const {
    for (int64_t i = 0; i < rows.size(); ++i, to += width) {
      const bool hidden = seen != nullptr && !seen[rows.begin + i];
      std::fill(to + (hidden ? 0 : s_.head_dim), to + width, T(0));
      if (hidden) continue;
      map_range<T>(
          0, s_.head_dim, to, [](auto x) HWY_ATTR { return feature_of(x); },
          from + (rows.begin + i) * stride);
    }
  }
  void read_queries(const T* q, HeadIndex at, Interval rows, ChunkWorkspace<T>& w) const {
    read_features(head_of(q, s_.q, at.b, at.h), s_.q.row, rows, nullptr, w.q, w.d);
  }
  /// w.k = phi(k) and w.v = [v, 1]; rows of zeros for keys that may not be seen.
  void read_keys(const T* k, const T* v, HeadIndex at, Interval rows, ChunkWorkspace<T>& w) const {
    const bool* seen = o_.key_mask == nullptr ? nullptr : o_.key_mask + at.b * s_.keys;
    read_features(head_of(k, s_.k, at.b, at.h), s_.k.row, rows, seen, w.k, w.d);
    const T* from = head_of(v, s_.v, at.b, at.h) + rows.begin * s_.v.row;
    T* to = w.v;
    for (int64_t i = 0; i < rows.size(); ++i, from += s_.v.row, to += w.e) {
      std::fill(to, to + w.e, T(0));
      if (seen != nullptr && !seen[rows.begin + i]) continue;
      std::copy(from, from + s_.value_dim, to);
      to[s_.value_dim] = T(1);
    }
  }
  /// w.g = [dO, -dO . o] / sum; zeros for a query that saw nothing.
  void read_gradients(const LinearAttentionBackward<T>& a, HeadIndex at, Interval rows,
                      ChunkWorkspace<T>& w) const {
    const T* sums = a.sums + (at.b * s_.heads + at.h) * s_.queries + rows.begin;
    const T* d_o = head_of(a.d_o, a.d_o_strides, at.b, at.h) + rows.begin * a.d_o_strides.row;
    const T* o = head_of(a.o, s_.o, at.b, at.h) + rows.begin * s_.o.row;
    T* to = w.g;
    for (int64_t i = 0; i < rows.size(); ++i, d_o += a.d_o_strides.row, o += s_.o.row, to += w.e) {
      const T inverse = sums[i] > 0 ? T(1) / sums[i] : T(0);
      std::fill(to + s_.value_dim, to + w.e, T(0));
      std::copy(d_o, d_o + s_.value_dim, to);
      to[s_.value_dim] = -row_dot(d_o, o, s_.value_dim);
      scale_row(inverse, s_.value_dim + 1, to);
    }
  }

  /// sum = the sum over the keys of a chunk, which were read, of phi(k) [v, 1]^T.
  void sum_keys(Interval rows, const ChunkWorkspace<T>& w, T* sum) const {
    tile_multiply<Into::c, true, T>(s_.head_dim, w.e, rows.size(), {w.k, 1, w.d}, {w.v, w.e}, {sum, w.e});
  }
  /// sum += the sum over the queries of a chunk, which were read, of phi(q) g^T.
  void add_queries(Interval rows, const ChunkWorkspace<T>& w, T* sum) const {
    tile_multiply<Into::sum, true, T>(s_.head_dim, w.e, rows.size(), {w.q, 1, w.d}, {w.g, w.e}, {sum, w.e});
  }

  /// Whether each thread takes whole heads, chunk after chunk, with what accumulate() would give at hand.
  bool goes_by_heads() const { return o_.causal && s_.batch * s_.kv_heads >= 2 * threads(); }

  /// Calls fn(head, total, workspace) for each head of keys; total [d, e] is zeros.
  template <class Fn>
  void each_head(Fn fn) const {
    const int64_t tasks = s_.batch * s_.kv_heads, team = team_size(tasks, 1);
    const Workspaces<T> workspaces(team, ChunkWorkspace<T>::numbers(s_));
    const Workspaces<double> totals(team, state_size());
    parallel_for_team(team, tasks, 1, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
      ChunkWorkspace<T> workspace(s_, workspaces.at(member));
      double* const total = totals.at(member).take(state_size());
      for (int64_t task = begin; task < end; ++task) {
        std::fill(total, total + state_size(), 0.0);
        fn(HeadIndex{task / s_.kv_heads, task % s_.kv_heads}, total, workspace);
      }
    });
  }
  /// w.state = the sum of the chunks so far, before the next one's is added to it.
  void round_total(const double* total, ChunkWorkspace<T>& w) const {
    for (int64_t i = 0; i < state_size(); ++i) w.state[i] = static_cast<T>(total[i]);
  }
  void add_sum(const ChunkWorkspace<T>& w, double* total) const {
    for (int64_t i = 0; i < state_size(); ++i) total[i] += static_cast<double>(w.sum[i]);
  }

  void forward_by_heads(const LinearAttentionForward<T>& a) const {
    each_head([&](HeadIndex at, double* total, ChunkWorkspace<T>& w) HWY_ATTR {
      const int64_t width = s_.value_dim + 1;
      double* const kept =
          a.state == nullptr ? nullptr : a.state + (at.b * s_.kv_heads + at.h) * s_.head_dim * width;
      for (int64_t i = 0; kept != nullptr && i < s_.head_dim; ++i)
        std::copy(kept + i * width, kept + (i + 1) * width, total + i * e_);
      for (int64_t c = 0; c < key_chunks_; ++c) {
        const Interval rows = chunk_at(c, s_.keys);
        read_keys(a.k, a.v, at, rows, w);
        round_total(total, w);
        for (int64_t i = 0; i < group_; ++i) output(a, {at.b, at.h * group_ + i}, c, w.state, w);
        sum_keys(rows, w, w.sum);
        add_sum(w, total);
      }
      for (int64_t i = 0; kept != nullptr && i < s_.head_dim; ++i)
        std::copy(total + i * e_, total + i * e_ + width, kept + i * width);
    });
  }

  void backward_by_heads(const LinearAttentionBackward<T>& a) const {
    each_head([&](HeadIndex at, double* total, ChunkWorkspace<T>& w) HWY_ATTR {
      for (int64_t c = 0; c < key_chunks_; ++c) {
        const Interval rows = chunk_at(c, s_.keys);
        read_keys(a.k, a.v, at, rows, w);
        round_total(total, w);
        for (int64_t i = 0; i < group_; ++i) query_gradients(a, {at.b, at.h * group_ + i}, c, w.state, w);
        sum_keys(rows, w, w.sum);
        add_sum(w, total);
      }
      std::fill(total, total + state_size(), 0.0);
      for (int64_t c = key_chunks_ - 1; c >= 0; --c) {
        round_total(total, w);
        std::fill(w.sum, w.sum + state_size(), T(0));
        key_gradients(a, at, c, w.state, w.sum, w);
        add_sum(w, total);
      }
    });
  }

  /// The sums of chunks become those of all chunks before each (after each, if `reverse`), `state` included;
  /// where nothing is causal, the first becomes the sum of all. `state`, if not null, becomes that sum.
  void accumulate(int64_t chunks, bool reverse, double* state, T* sums) const {
    const int64_t rows = s_.batch * s_.kv_heads * s_.head_dim, width = s_.value_dim + 1;
    parallel_for(rows, row_grain(chunks * e_), [&](int64_t begin, int64_t end) {
      std::vector<double> total(static_cast<std::size_t>(e_));
      for (int64_t row = begin; row < end; ++row) {
        double* const kept = state == nullptr ? nullptr : state + row * width;
        std::fill(total.begin(), total.end(), 0.0);
        if (kept != nullptr) std::copy(kept, kept + width, total.begin());
        T* const first = sums + row / s_.head_dim * chunks * state_size() + row % s_.head_dim * e_;
        for (int64_t i = 0; i < chunks; ++i) {
          T* at = first + (reverse ? chunks - 1 - i : i) * state_size();
          for (int64_t j = 0; j < e_; ++j) {
            double& sum = total[static_cast<std::size_t>(j)];
            const double before = sum;
            sum += static_cast<double>(at[j]);
            at[j] = static_cast<T>(before);
          }
        }
        for (int64_t j = 0; !o_.causal && j < e_; ++j)
          first[j] = static_cast<T>(total[static_cast<std::size_t>(j)]);
        if (kept != nullptr) std::copy(total.begin(), total.begin() + width, kept);
      }
    });
  }
  const T* state_for(const T* states, int64_t b, int64_t kv, int64_t c, int64_t chunks) const {
    return states + ((b * s_.kv_heads + kv) * chunks + (o_.causal ? c : 0)) * state_size();
  }

  /// to[i] += sum over j <= i of (left[i] . transposed[:, j]) right[j], of the n rows of a chunk;
  /// `transposed` is [depth, kLinearChunk].
  void add_lower(int64_t n, int64_t depth, RowMajor<const T> left, const T* transposed,
                 RowMajor<const T> right, RowMajor<T> to, ChunkWorkspace<T>& w) const {
    for (int64_t first = 0; first < n; first += kLinearRows) {
      const int64_t end = std::min(first + kLinearRows, n);
      tile_multiply<Into::c, false, T>(end - first, padded<T>(end), depth,
                                       {left.data + first * left.stride, left.stride, 1},
                                       {transposed, kLinearChunk}, {w.products, kLinearChunk});
      for (int64_t i = first; i < end; ++i) {
        T* row = w.products + (i - first) * kLinearChunk;
        std::fill(row + i + 1, row + end, T(0));
      }
      tile_multiply<Into::sum, false, T>(end - first, to.stride, end, {w.products, kLinearChunk, 1}, right,
                                         {to.data + first * to.stride, to.stride});
    }
  }
  /// The same over j >= i.
  void add_upper(int64_t n, int64_t depth, RowMajor<const T> left, const T* transposed,
                 RowMajor<const T> right, RowMajor<T> to, ChunkWorkspace<T>& w) const {
    for (int64_t first = 0; first < n; first += kLinearRows) {
      const int64_t end = std::min(first + kLinearRows, n);
      tile_multiply<Into::c, false, T>(end - first, padded<T>(n - first), depth,
                                       {left.data + first * left.stride, left.stride, 1},
                                       {transposed + first, kLinearChunk}, {w.products, kLinearChunk});
      for (int64_t i = first; i < end; ++i) {
        T* row = w.products + (i - first) * kLinearChunk;
        std::fill(row, row + (i - first), T(0));
      }
      tile_multiply<Into::sum, false, T>(end - first, to.stride, n - first, {w.products, kLinearChunk, 1},
                                         {right.data + first * right.stride, right.stride},
                                         {to.data + first * to.stride, to.stride});
    }
  }

  /// The results of a chunk of queries; of causal ones, whose keys were read.
  void output(const LinearAttentionForward<T>& a, HeadIndex at, int64_t c, const T* state,
              ChunkWorkspace<T>& w) const {
    const Interval rows = chunk_at(c, s_.queries);
    read_queries(a.q, at, rows, w);
    tile_multiply<Into::c, false, T>(rows.size(), w.e, s_.head_dim, {w.q, w.d, 1}, {state, w.e},
                                     {w.by_value, w.e});
    if (o_.causal) {
      pack_transposed<T>(rows.size(), s_.head_dim, {w.k, w.d}, {w.keys_turned, kLinearChunk}, kLinearChunk);
      add_lower(rows.size(), s_.head_dim, {w.q, w.d}, w.keys_turned, {w.v, w.e}, {w.by_value, w.e}, w);
    }
    write_output(a, at, rows, w);
  }
  void write_output(const LinearAttentionForward<T>& a, HeadIndex at, Interval rows,
                    ChunkWorkspace<T>& w) const {
    for (int64_t i = 0; i < rows.size(); ++i) {
      const T* from = w.by_value + i * w.e;
      const T sum = from[s_.value_dim];
      const Vec<T> inverse = broadcast(sum > 0 ? T(1) / sum : T(0));
      map_range<T>(
          0, s_.value_dim, head_of(a.o, s_.o, at.b, at.h) + (rows.begin + i) * s_.o.row,
          [=](auto x) HWY_ATTR { return hn::Mul(x, inverse); }, from);
      if (a.sums != nullptr) a.sums[(at.b * s_.heads + at.h) * s_.queries + rows.begin + i] = sum;
    }
  }

  /// dx = dphi(x) phi'(x), where phi'(x) = min(phi(x), 1).
  void write_gradient(const T* d_features, const T* features, int64_t width, Interval rows, T* to,
                      const AttentionStrides& strides, HeadIndex at) const {
    for (int64_t i = 0; i < rows.size(); ++i) {
      map_range<T>(
          0, s_.head_dim, head_of(to, strides, at.b, at.h) + (rows.begin + i) * strides.row,
          [](auto dy, auto phi) HWY_ATTR { return hn::Mul(dy, hn::Min(phi, broadcast(T(1)))); },
          d_features + i * width, features + i * width);
    }
  }

  /// Those of a chunk; of causal queries, whose keys were read.
  void query_gradients(const LinearAttentionBackward<T>& a, HeadIndex at, int64_t c, const T* state,
                       ChunkWorkspace<T>& w) const {
    const Interval rows = chunk_at(c, s_.queries);
    const int64_t n = rows.size(), depth = s_.value_dim + 1;
    read_queries(a.q, at, rows, w);
    read_gradients(a, at, rows, w);
    pack_transposed<T>(s_.head_dim, depth, {state, w.e}, {w.state_turned, w.d}, w.d);
    tile_multiply<Into::c, false, T>(n, w.d, depth, {w.g, w.e, 1}, {w.state_turned, w.d}, {w.by_key, w.d});
    if (o_.causal) {
      pack_transposed<T>(n, depth, {w.v, w.e}, {w.values_turned, kLinearChunk}, kLinearChunk);
      add_lower(n, depth, {w.g, w.e}, w.values_turned, {w.k, w.d}, {w.by_key, w.d}, w);
    }
    write_gradient(w.by_key, w.q, w.d, rows, a.dq, a.dq_strides, at);
  }

  /// Those of a chunk; `sum`, if not null, is what add_queries() adds for the chunk.
  void key_gradients(const LinearAttentionBackward<T>& a, HeadIndex at, int64_t c, const T* state, T* sum,
                     ChunkWorkspace<T>& w) const {
    const Interval rows = chunk_at(c, s_.keys);
    const int64_t n = rows.size(), depth = s_.value_dim + 1;
    read_keys(a.k, a.v, at, rows, w);
    pack_transposed<T>(s_.head_dim, depth, {state, w.e}, {w.state_turned, w.d}, w.d);
    tile_multiply<Into::c, false, T>(n, w.d, depth, {w.v, w.e, 1}, {w.state_turned, w.d}, {w.by_key, w.d});
    tile_multiply<Into::c, false, T>(n, w.e, s_.head_dim, {w.k, w.d, 1}, {state, w.e}, {w.by_value, w.e});
    for (int64_t i = 0; o_.causal && i < group_; ++i) {
      const HeadIndex query{at.b, at.h * group_ + i};
      read_queries(a.q, query, rows, w);
      read_gradients(a, query, rows, w);
      if (sum != nullptr) add_queries(rows, w, sum);
      pack_transposed<T>(n, s_.head_dim, {w.q, w.d}, {w.keys_turned, kLinearChunk}, kLinearChunk);
      pack_transposed<T>(n, depth, {w.g, w.e}, {w.values_turned, kLinearChunk}, kLinearChunk);
      add_upper(n, s_.head_dim, {w.k, w.d}, w.keys_turned, {w.g, w.e}, {w.by_value, w.e}, w);
      add_upper(n, depth, {w.v, w.e}, w.values_turned, {w.q, w.d}, {w.by_key, w.d}, w);
    }
    write_gradient(w.by_key, w.k, w.d, rows, a.dk, a.dk_strides, at);
    for (int64_t i = 0; i < n; ++i) {
      const T* from = w.by_value + i * w.e;
      std::copy(from, from + s_.value_dim,
                head_of(a.dv, a.dv_strides, at.b, at.h) + (rows.begin + i) * a.dv_strides.row);
    }
  }

  const AttentionShape& s_;
  const LinearAttentionOptions& o_;
  int64_t group_, e_, key_chunks_, query_chunks_;
};

template <class T>
void linear_attention(const AttentionShape& shape, const LinearAttentionOptions& options,
                      const LinearAttentionForward<T>& args) {
  LinearAttention<T>(shape, options).forward(args);
}
template <class T>
void linear_attention_backward(const AttentionShape& shape, const LinearAttentionOptions& options,
                               const LinearAttentionBackward<T>& args) {
  LinearAttention<T>(shape, options).backward(args);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(linear_attention);
HEED_EXPORT(linear_attention_backward);

template <class T>
void linear_attention(const AttentionShape& shape, const LinearAttentionOptions& options,
                      const LinearAttentionForward<T>& args) {
  HEED_DISPATCH(linear_attention, T)(shape, options, args);
}
template <class T>
void linear_attention_backward(const AttentionShape& shape, const LinearAttentionOptions& options,
                               const LinearAttentionBackward<T>& args) {
  HEED_DISPATCH(linear_attention_backward, T)(shape, options, args);
}

#define HEED_INSTANTIATE(T)                                                                     \
  template void linear_attention(const AttentionShape&, const LinearAttentionOptions&,          \
                                 const LinearAttentionForward<T>&);                             \
  template void linear_attention_backward(const AttentionShape&, const LinearAttentionOptions&, \
                                          const LinearAttentionBackward<T>&);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
