// Sparse attention, made of dense attention (kernels/attention.h) over views. The keys of a query are of two
// kinds that do not overlap, and in each kind queries and keys fall into groups that are dense or causal:
//
//   strided: a window of the last l keys; and, among the tokens of equal position mod l, all before the query
//   fixed:   its own block, causal; and the summaries of the blocks before, which a block's queries all see
//
// Equal positions mod l and blocks are batches of the dense kernels, by strides. The softmaxes of the two
// kinds are merged by their logsumexps. Backward, each kind gets the gradients that the common logsumexp
// gives it.
#include "kernels/attention_variants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "heed/buffer.h"
#include "heed/threads.h"

namespace heed::kernels {
namespace {

using std::int64_t;

/// Tokens by batch and row: token first + batch * batch_step + row * row_step.
struct TokenGrid {
  int64_t first, batch_step, row_step, rows;
  int64_t at(int64_t batch, int64_t row) const { return first + batch * batch_step + row * row_step; }
  AttentionStrides strides(const AttentionStrides& s) const {
    return {batch_step * s.row, s.head, row_step * s.row};
  }
};

/// Queries and keys of one row of the batch that one call of the dense kernels takes.
struct Group {
  int64_t batches;
  TokenGrid queries, keys;
  bool causal;
  int64_t window;
  int64_t offset;        // position of each batch's first query among its keys
  bool summary = false;  // the keys are those of the summaries, of which batch i sees the first
  int64_t seen = 0;      // seen + i * seen_step
  int64_t seen_step = 0;
};

/// One (b) of the batch: `count` queries from position `first` on.
struct QueryRange {
  int64_t b, first, count;
};

/// Calls local(group) for the keys near each query, then far(group) for those of the other kind.
template <class Local, class Far>
void strided_groups(int64_t l, const QueryRange& row, Local local, Far far) {
  local(Group{1, {0, 0, 1, row.count}, {0, 0, 1, row.first + row.count}, true, l, row.first});
  // Query t and those l, 2 l, ... after it have the same position mod l.
  const int64_t starts = std::min(l, row.count), rest = row.count % l, wrap = l - row.first % l;
  for (int64_t t = 0, end = 0; t < starts; t = end) {
    end = starts;
    if (t < rest) end = std::min(end, rest);
    if (t < wrap) end = std::min(end, wrap);
    const int64_t queries = (row.count - t + l - 1) / l, before = (row.first + t) / l;
    const TokenGrid keys{(row.first + t) % l, 1, l, before + queries - 1};
    // The query itself is in the window.
    if (keys.rows > 0) far(Group{end - t, {t, 1, l, queries}, keys, true, 0, before - 1});
  }
}

template <class Local, class Far>
void fixed_groups(int64_t l, int64_t c, const QueryRange& row, Local local, Far far) {
  const auto blocks = [&](int64_t t, int64_t count, int64_t queries) {
    if (count * queries == 0) return;
    const int64_t block = (row.first + t) / l, inside = (row.first + t) % l;
    const TokenGrid grid{t, l, 1, queries};
    local(Group{count, grid, {block * l, l, 1, inside + queries}, true, 0, inside});
    if (block + count - 1 > 0)
      far(Group{count, grid, {0, 0, 1, (block + count - 1) * c}, false, 0, 0, true, block * c, c});
  };
  const int64_t head = row.first % l == 0 ? 0 : std::min(row.count, l - row.first % l);
  const int64_t whole = (row.count - head) / l;
  blocks(0, 1, head);
  blocks(head, whole, l);
  blocks(head + whole * l, 1, row.count - head - whole * l);
}

template <class Local, class Far>
void each_group(const SparsePattern& pattern, const QueryRange& row, Local local, Far far) {
  if (row.count == 0) return;
  if (pattern.kind == SparseKind::strided) return strided_groups(pattern.stride, row, local, far);
  fixed_groups(pattern.stride, pattern.summary, row, local, far);
}

/// Memory from the pool for numbers, as large as the largest request; not cleared.
template <class T>
class Scratch {
 public:
  T* take(int64_t count) {
    if (buffer_ == nullptr || size_ < count) {
      buffer_ = Buffer::allocate(static_cast<std::size_t>(count) * sizeof(T));
      size_ = count;
    }
    return reinterpret_cast<T*>(buffer_->data());
  }

 private:
  std::shared_ptr<Buffer> buffer_;
  int64_t size_ = 0;
};

/// What the forward and the backward pass share.
template <class T>
class Sparse {
 protected:
  Sparse(const AttentionShape& shape, const SparseAttentionOptions& options) : s_(shape), o_(options) {}

  QueryRange row_of(int64_t b) const {
    return {b, o_.query_offsets != nullptr ? o_.query_offsets[b] : s_.keys - s_.queries, s_.queries};
  }
  /// The position of number u among the summaries.
  int64_t summary_position(int64_t u) const {
    const SparsePattern& p = o_.pattern;
    return u / p.summary * p.stride + p.stride - p.summary + u % p.summary;
  }
  /// How many summaries the queries of a row see at most.
  int64_t summaries(const QueryRange& row) const {
    if (o_.pattern.kind != SparseKind::fixed || row.count == 0) return 0;
    return (row.first + row.count - 1) / o_.pattern.stride * o_.pattern.summary;
  }
  /// Fn(summary, head, row) for `count` summaries of one b.
  template <class Fn>
  void each_summary(int64_t count, Fn fn) const {
    parallel_for(s_.kv_heads * count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) fn(i / count, i % count, summary_position(i % count));
    });
  }
  /// The keys and values of the summaries, [kv_heads, count, width] each.
  void copy_summaries(int64_t b, int64_t count, const T* k, const T* v) {
    T* keys = keys_.take(s_.kv_heads * count * s_.head_dim);
    T* values = values_.take(s_.kv_heads * count * s_.value_dim);
    each_summary(count, [&](int64_t h, int64_t u, int64_t position) {
      const T* key = k + b * s_.k.batch + h * s_.k.head + position * s_.k.row;
      const T* value = v + b * s_.v.batch + h * s_.v.head + position * s_.v.row;
      std::copy(key, key + s_.head_dim, keys + (h * count + u) * s_.head_dim);
      std::copy(value, value + s_.value_dim, values + (h * count + u) * s_.value_dim);
    });
    summary_count_ = count;
  }
  AttentionStrides summary_strides(int64_t width) const { return {0, summary_count_ * width, width}; }

  const T* keys_of(const Group& g, int64_t b, const T* k) {
    return g.summary ? keys_.take(0) : k + b * s_.k.batch + g.keys.first * s_.k.row;
  }
  const T* values_of(const Group& g, int64_t b, const T* v) {
    return g.summary ? values_.take(0) : v + b * s_.v.batch + g.keys.first * s_.v.row;
  }
  AttentionShape shape_of(const Group& g, const AttentionStrides& o) const {
    AttentionShape shape = s_;
    shape.batch = g.batches;
    shape.queries = g.queries.rows;
    shape.keys = g.keys.rows;
    shape.q = g.queries.strides(s_.q);
    shape.k = g.summary ? summary_strides(s_.head_dim) : g.keys.strides(s_.k);
    shape.v = g.summary ? summary_strides(s_.value_dim) : g.keys.strides(s_.v);
    shape.o = g.queries.strides(o);
    return shape;
  }
  /// The options of the dense kernels; they refer to members that the next call overwrites.
  AttentionOptions<T> options_of(const Group& g, int64_t b) {
    AttentionOptions<T> options;
    options.scale = o_.scale;
    options.causal = g.causal;
    options.window = g.window;
    offsets_.assign(static_cast<std::size_t>(g.batches), g.offset);
    options.query_offsets = offsets_.data();
    if (g.summary) {
      lengths_.clear();
      for (int64_t i = 0; i < g.batches; ++i) lengths_.push_back(g.seen + i * g.seen_step);
      options.key_lengths = lengths_.data();
    }
    if (o_.key_mask != nullptr) {
      const bool* seen = o_.key_mask + b * s_.keys;
      bool* mask = mask_.take(g.batches * g.keys.rows);
      for (int64_t i = 0; i < g.batches; ++i) {
        for (int64_t u = 0; u < g.keys.rows; ++u)
          *mask++ = seen[g.summary ? summary_position(u) : g.keys.at(i, u)];
      }
      options.key_mask = mask_.take(0);
    }
    return options;
  }
  /// Calls fn(i, h, first, n): numbers i of a group's [batches, heads, rows] from i on are those of head h
  /// and the queries first, first + row_step, ..., n of them.
  template <class Fn>
  void each_head(const Group& g, Fn fn) const {
    parallel_for(g.batches * s_.heads, std::max<int64_t>(1, 4096 / g.queries.rows),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t batch = i / s_.heads, h = i % s_.heads;
                     fn(i * g.queries.rows, h, g.queries.at(batch, 0), g.queries.rows);
                   }
                 });
  }

  const AttentionShape& s_;
  const SparseAttentionOptions& o_;
  int64_t summary_count_ = 0;
  Scratch<T> keys_, values_, logsumexp_;
  Scratch<bool> mask_;
  std::vector<int64_t> offsets_, lengths_;
};

template <class T>
class SparseForward : Sparse<T> {
  using Base = Sparse<T>;
  using Base::s_, Base::o_;

 public:
  SparseForward(const AttentionShape& shape, const SparseAttentionOptions& options,
                const SparseAttentionForward<T>& args)
      : Base(shape, options), a_(args) {}

  void run() {
    for (int64_t b = 0; b < s_.batch; ++b) {
      const QueryRange row = this->row_of(b);
      this->copy_summaries(b, this->summaries(row), a_.k, a_.v);
      T* const o = a_.o + b * s_.o.batch;
      T* const logsumexp = a_.logsumexp + b * s_.heads * s_.queries;
      T* const far_o = far_o_.take(s_.heads * s_.queries * s_.value_dim);
      T* const far_logsumexp = far_logsumexp_.take(s_.heads * s_.queries);
      std::fill(far_logsumexp, far_logsumexp + s_.heads * s_.queries, -std::numeric_limits<T>::infinity());
      const AttentionStrides far_strides{0, s_.queries * s_.value_dim, s_.value_dim};
      each_group(
          o_.pattern, row, [&](const Group& g) { attend(g, b, o, s_.o, logsumexp); },
          [&](const Group& g) { attend(g, b, far_o, far_strides, far_logsumexp); });
      merge(far_o, far_logsumexp, o, logsumexp);
    }
  }

 private:
  /// o and logsumexp [H, T] of the group's queries, over its keys.
  void attend(const Group& g, int64_t b, T* o, const AttentionStrides& strides, T* logsumexp) {
    AttentionForward<T> args;
    args.q = a_.q + b * s_.q.batch + g.queries.first * s_.q.row;
    args.k = this->keys_of(g, b, a_.k);
    args.v = this->values_of(g, b, a_.v);
    args.o = o + g.queries.first * strides.row;
    args.logsumexp = this->logsumexp_.take(g.batches * s_.heads * g.queries.rows);
    attention<T>(this->shape_of(g, strides), this->options_of(g, b), args);
    this->each_head(g, [&](int64_t i, int64_t h, int64_t first, int64_t n) {
      for (int64_t a = 0; a < n; ++a)
        logsumexp[h * s_.queries + first + a * g.queries.row_step] = args.logsumexp[i + a];
    });
  }

  /// o and logsumexp of both kinds of keys, [H, T] of one b.
  void merge(const T* far_o, const T* far_logsumexp, T* o, T* logsumexp) const {
    constexpr T kNothing = -std::numeric_limits<T>::infinity();
    const int64_t e = s_.value_dim, rows = s_.heads * s_.queries;
    parallel_for(
        rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(e, 1)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            if (far_logsumexp[i] == kNothing) continue;
            const T largest = std::max(logsumexp[i], far_logsumexp[i]);
            const T near = std::exp(logsumexp[i] - largest), far = std::exp(far_logsumexp[i] - largest);
            const T near_part = near / (near + far), far_part = far / (near + far);
            T* to = o + i / s_.queries * s_.o.head + i % s_.queries * s_.o.row;
            for (int64_t j = 0; j < e; ++j) to[j] = to[j] * near_part + far_o[i * e + j] * far_part;
            logsumexp[i] = largest + std::log(near + far);
          }
        });
  }

  const SparseAttentionForward<T>& a_;
  Scratch<T> far_o_, far_logsumexp_;
};

template <class T>
class SparseBackward : Sparse<T> {
  using Base = Sparse<T>;
  using Base::s_, Base::o_;

 public:
  SparseBackward(const AttentionShape& shape, const SparseAttentionOptions& options,
                 const SparseAttentionBackward<T>& args)
      : Base(shape, options), a_(args) {}

  void run() {
    clear(a_.dq, a_.dq_strides, s_.heads, s_.queries, s_.head_dim);
    clear(a_.dk, a_.dk_strides, s_.kv_heads, s_.keys, s_.head_dim);
    clear(a_.dv, a_.dv_strides, s_.kv_heads, s_.keys, s_.value_dim);
    for (int64_t b = 0; b < s_.batch; ++b) {
      const QueryRange row = this->row_of(b);
      const int64_t count = this->summaries(row);
      this->copy_summaries(b, count, a_.k, a_.v);
      T* const dk = dk_.take(s_.kv_heads * count * s_.head_dim);
      T* const dv = dv_.take(s_.kv_heads * count * s_.value_dim);
      std::fill(dk, dk + s_.kv_heads * count * s_.head_dim, T(0));
      std::fill(dv, dv + s_.kv_heads * count * s_.value_dim, T(0));
      const auto add = [&](const Group& g) { differentiate(g, b, dk, dv); };
      each_group(o_.pattern, row, add, add);
      this->each_summary(count, [&](int64_t h, int64_t u, int64_t position) {
        const int64_t i = h * count + u;
        T* key = a_.dk + b * a_.dk_strides.batch + h * a_.dk_strides.head + position * a_.dk_strides.row;
        T* value = a_.dv + b * a_.dv_strides.batch + h * a_.dv_strides.head + position * a_.dv_strides.row;
        for (int64_t j = 0; j < s_.head_dim; ++j) key[j] += dk[i * s_.head_dim + j];
        for (int64_t j = 0; j < s_.value_dim; ++j) value[j] += dv[i * s_.value_dim + j];
      });
    }
  }

 private:
  void clear(T* to, const AttentionStrides& m, int64_t heads, int64_t n, int64_t width) const {
    parallel_for(s_.batch * heads * n, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     T* row = to + i / (heads * n) * m.batch + i / n % heads * m.head + i % n * m.row;
                     std::fill(row, row + width, T(0));
                   }
                 });
  }

  /// Adds the gradients that the group's queries give themselves and its keys.
  void differentiate(const Group& g, int64_t b, T* summary_dk, T* summary_dv) {
    const auto queries = [&](auto* data, const AttentionStrides& m) {
      return data + b * m.batch + g.queries.first * m.row;
    };
    AttentionBackward<T> args;
    T* const logsumexp = this->logsumexp_.take(g.batches * s_.heads * g.queries.rows);
    const T* from = a_.logsumexp + b * s_.heads * s_.queries;
    this->each_head(g, [&](int64_t i, int64_t h, int64_t first, int64_t n) {
      for (int64_t a = 0; a < n; ++a)
        logsumexp[i + a] = from[h * s_.queries + first + a * g.queries.row_step];
    });
    args.q = queries(a_.q, s_.q);
    args.k = this->keys_of(g, b, a_.k);
    args.v = this->values_of(g, b, a_.v);
    args.o = queries(a_.o, s_.o);
    args.logsumexp = logsumexp;
    args.d_o = queries(a_.d_o, a_.d_o_strides);
    args.dq = queries(a_.dq, a_.dq_strides);
    args.d_o_strides = g.queries.strides(a_.d_o_strides);
    args.dq_strides = g.queries.strides(a_.dq_strides);
    args.dk_strides = g.summary ? this->summary_strides(s_.head_dim) : g.keys.strides(a_.dk_strides);
    args.dv_strides = g.summary ? this->summary_strides(s_.value_dim) : g.keys.strides(a_.dv_strides);
    args.dk = g.summary ? summary_dk : a_.dk + b * a_.dk_strides.batch + g.keys.first * a_.dk_strides.row;
    args.dv = g.summary ? summary_dv : a_.dv + b * a_.dv_strides.batch + g.keys.first * a_.dv_strides.row;
    args.partial = true;
    attention_backward<T>(this->shape_of(g, s_.o), this->options_of(g, b), args);
  }

  const SparseAttentionBackward<T>& a_;
  Scratch<T> dk_, dv_;
};

}  // namespace

template <class T>
void sparse_attention(const AttentionShape& shape, const SparseAttentionOptions& options,
                      const SparseAttentionForward<T>& args) {
  SparseForward<T>(shape, options, args).run();
}
template <class T>
void sparse_attention_backward(const AttentionShape& shape, const SparseAttentionOptions& options,
                               const SparseAttentionBackward<T>& args) {
  SparseBackward<T>(shape, options, args).run();
}

#define HEED_INSTANTIATE(T)                                                                     \
  template void sparse_attention(const AttentionShape&, const SparseAttentionOptions&,          \
                                 const SparseAttentionForward<T>&);                             \
  template void sparse_attention_backward(const AttentionShape&, const SparseAttentionOptions&, \
                                          const SparseAttentionBackward<T>&);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
