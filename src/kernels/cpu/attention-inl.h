// What the parts of attention share: which keys a query may see, what is added to its scores, and the
// workspace a thread works in. Scores are kept in powers of two: queries are scaled by scale * log2(e), and
// so is everything added to a score. Whatever depends on the distance of query and key alone (causality,
// window, ALiBi, relative bias) comes from one row of numbers for a whole block; masks are looked at key by
// key.
#if defined(HEED_KERNELS_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_INL_H_
#undef HEED_KERNELS_ATTENTION_INL_H_
#else
#define HEED_KERNELS_ATTENTION_INL_H_
#endif

#include <cstring>
#include <memory>
#include <numeric>

#include "heed/buffer.h"
#include "heed/dtype.h"
#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Keys whose scores are held at a time. Blocks start at multiples of it, wherever the visible keys start.
inline constexpr int64_t kKeyBlock = 128;
static_assert(kAttentionPage % kKeyBlock == 0, "a block lies in one page");
/// The sum of a block's probabilities is kept in as many parts, key s in part s % kSumParts.
inline constexpr int64_t kSumParts = 16;
/// The softmax runs over a span of keys; spans are then joined in order. This lets several threads share a
/// row.
inline constexpr int64_t kSpan = 8 * kKeyBlock;
/// Queries of a tile of scores.
template <class T>
inline constexpr int64_t kTileQueries = kTileVectors* lanes<T>();

/// Where a running maximum starts: below every score, but finite, so that differences are numbers.
template <class T>
inline constexpr T kNoScore = std::numeric_limits<T>::lowest() / T(1.1);
/// Finite biases below this are taken for it: the sum with a score must not become -inf.
template <class T>
inline constexpr T kLeastBias = std::numeric_limits<T>::lowest() / T(4);

struct Interval {
  int64_t begin;
  int64_t end;
  bool empty() const { return begin >= end; }
  int64_t size() const { return end - begin; }
};
HWY_INLINE Interval both(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// One (batch, head) of an attention.
struct HeadIndex {
  int64_t b;
  int64_t h;
};

template <class P>
HWY_INLINE P* head_of(P* data, const AttentionStrides& strides, int64_t b, int64_t h) {
  const int64_t batch = strides.starts != nullptr ? strides.starts[b] * strides.row : b * strides.batch;
  return data + batch + h * strides.head;
}

/// A step by which to walk over n tasks in a circle so that any run of visits is spread over all of them:
/// tasks of growing cost are then shared out fairly in runs.
HWY_INLINE int64_t spreading_step(int64_t n) {
  int64_t step = std::max<int64_t>(1, n * 5 / 8);
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

template <class T>
inline constexpr T kLog2e = static_cast<T>(1.44269504088896340736);
template <class T>
inline constexpr T kLn2 = static_cast<T>(0.69314718055994530942);

/// Who sees whom, and what is added to the products q . k.
template <class T>
class MaskAndBias {
 public:
  MaskAndBias(const AttentionShape& shape, const AttentionOptions<T>& options) : s_(shape), o_(options) {
    if (o_.key_lengths == nullptr && o_.key_mask == nullptr) return;
    for (int64_t b = 0; b < s_.batch; ++b) {
      Interval keys{0, s_.keys};
      if (o_.key_lengths != nullptr) keys.end = std::clamp<int64_t>(o_.key_lengths[b], 0, s_.keys);
      if (o_.key_mask != nullptr) {  // padding at the ends is cut off
        const bool* seen = o_.key_mask + b * s_.keys;
        while (keys.end > 0 && !seen[keys.end - 1]) --keys.end;
        while (keys.begin < keys.end && !seen[keys.begin]) ++keys.begin;
      }
      present_.push_back(keys);
    }
  }

  /// The number of queries of batch b.
  int64_t queries(int64_t b) const {
    return o_.query_lengths != nullptr ? std::clamp<int64_t>(o_.query_lengths[b], 0, s_.queries) : s_.queries;
  }
  /// The position of query t of batch b.
  int64_t position(int64_t b, int64_t t) const {
    return t + (o_.query_offsets != nullptr ? o_.query_offsets[b] : s_.keys - s_.queries);
  }

  /// The keys that query t of batch b may see, masks aside. Both ends only grow with t.
  Interval visible(int64_t b, int64_t t) const {
    Interval keys = present_.empty() ? Interval{0, s_.keys} : present_[static_cast<std::size_t>(b)];
    const int64_t place = position(b, t);
    if (o_.causal) keys.end = std::min(keys.end, place + 1);
    if (o_.window > 0) {
      keys.begin = std::max(keys.begin, place - o_.window + 1);
      keys.end = std::min(keys.end, place + o_.window);
    }
    if (o_.key_starts != nullptr) keys.begin = std::max(keys.begin, key_start(b, t));
    keys.end = std::max<int64_t>(keys.end, 0);
    keys.begin = std::min(keys.begin, keys.end);
    return keys;
  }
  /// The keys that some of the queries [first, first + count) may see.
  Interval visible_block(int64_t b, int64_t first, int64_t count) const {
    return {visible(b, first).begin, visible(b, first + count - 1).end};
  }
  /// The keys that all of them may see.
  Interval visible_to_all(int64_t b, int64_t first, int64_t count) const {
    return {visible(b, first + count - 1).begin, visible(b, first).end};
  }
  /// Whether some of them begin to see later than at key `first`, by key_starts.
  bool starts_after(int64_t first, int64_t b, int64_t t, int64_t count) const {
    return o_.key_starts != nullptr && key_start(b, t + count - 1) > first;
  }
  /// False when key_mask hides all of these keys.
  bool any_present(int64_t b, Interval keys) const {
    if (o_.key_mask == nullptr) return true;
    const bool* seen = o_.key_mask + b * s_.keys;
    return std::find(seen + keys.begin, seen + keys.end, true) != seen + keys.end;
  }

  /// Whether scores depend on the distance, beyond who sees whom.
  bool has_distance_terms() const { return o_.relative_bias != nullptr || o_.alibi_slopes != nullptr; }
  /// What is added to the score at distances first, first + 1, ...: -inf where that is out of sight.
  HWY_NOINLINE void distance_terms(int64_t h, int64_t first, int64_t count, T* terms) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t distance = first + i;
      T term = 0;
      if (o_.relative_bias != nullptr) term = log2_bias(o_.relative_bias[relative(h, distance)]);
      if (o_.alibi_slopes != nullptr) {
        term -= o_.alibi_slopes[h] * kLog2e<T> * static_cast<T>(std::abs(distance));
      }
      const bool hidden = (o_.causal && distance < 0) || (o_.window > 0 && std::abs(distance) >= o_.window);
      terms[i] = hidden ? -std::numeric_limits<T>::infinity() : term;
    }
  }
  /// Where relative_bias and its gradient hold the number of a distance.
  int64_t relative(int64_t h, int64_t distance) const {
    const int64_t width = s_.queries + s_.keys - 1;
    return h * width + std::clamp<int64_t>(s_.keys - 1 - distance, 0, width - 1);
  }

  /// Whether masks or a bias change any score of these keys.
  bool has_terms(int64_t b, Interval keys) const {
    if (o_.bias != nullptr || o_.mask != nullptr) return true;
    if (o_.key_mask == nullptr) return false;
    const bool* seen = o_.key_mask + b * s_.keys;
    return std::find(seen + keys.begin, seen + keys.end, false) != seen + keys.end;
  }
  /// Whether those terms differ from query to query.
  bool terms_by_query() const {
    return (o_.bias != nullptr && o_.bias_strides.query != 0) ||
           (o_.mask != nullptr && o_.mask_strides.query != 0);
  }
  /// terms[i]: what masks, key_starts and bias add to the score of query t and key keys.begin + i.
  HWY_NOINLINE void terms_row(HeadIndex at, int64_t t, Interval keys, T* terms) const {
    const int64_t n = keys.size();
    std::fill(terms, terms + n, T(0));
    if (o_.bias != nullptr) {
      const MaskStrides& m = o_.bias_strides;
      const T* bias = o_.bias + at.b * m.batch + at.h * m.head + t * m.query + keys.begin * m.key;
      for (int64_t i = 0; i < n; ++i) terms[i] = log2_bias(bias[i * m.key]);
    }
    const T lowest = -std::numeric_limits<T>::infinity();
    if (o_.key_mask != nullptr) {
      const bool* seen = o_.key_mask + at.b * s_.keys + keys.begin;
      for (int64_t i = 0; i < n; ++i) terms[i] = seen[i] ? terms[i] : lowest;
    }
    if (o_.mask != nullptr) {
      const MaskStrides& m = o_.mask_strides;
      const bool* seen = o_.mask + at.b * m.batch + at.h * m.head + t * m.query + keys.begin * m.key;
      for (int64_t i = 0; i < n; ++i) terms[i] = seen[i * m.key] ? terms[i] : lowest;
    }
    if (o_.key_starts != nullptr)
      std::fill(terms, terms + std::clamp<int64_t>(key_start(at.b, t) - keys.begin, 0, n), lowest);
  }

  std::uint64_t dropout_index(HeadIndex at, int64_t t, int64_t s) const {
    return static_cast<std::uint64_t>(((at.b * s_.heads + at.h) * s_.queries + t) * s_.keys + s);
  }

  /// What a query is multiplied by, so that its products with keys are scores in powers of two, or what the
  /// tanh of a cap is taken of.
  T query_factor() const {
    return static_cast<T>(has_cap() ? o_.scale / o_.cap : o_.scale * 1.44269504088896340736);
  }
  bool has_cap() const { return o_.cap > 0; }
  /// The factor of that tanh, with which capped scores are in powers of two.
  T cap_factor() const { return static_cast<T>(o_.cap * 1.44269504088896340736); }

 private:
  int64_t key_start(int64_t b, int64_t t) const { return o_.key_starts[b * s_.queries + t]; }
  static HWY_INLINE T log2_bias(T bias) {
    const T scaled = std::max(bias * kLog2e<T>, kLeastBias<T>);
    return bias == -std::numeric_limits<T>::infinity() ? bias : scaled;
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  std::vector<Interval> present_;  // by batch: where key_lengths and key_mask leave keys; empty: everywhere
};

/// Workspace for numbers, handed out piece by piece; not cleared.
template <class T>
class Workspace {
 public:
  explicit Workspace(T* start) : next_(start) {}
  /// The next n numbers, from a whole vector on.
  T* take(int64_t n) {
    T* start = next_;
    next_ += whole(n);
    return start;
  }
  static constexpr int64_t whole(int64_t n) { return (n + 15) / 16 * 16; }

 private:
  T* next_;
};

/// Workspace from the pool, of one size for each thread of a parallel loop. The caller makes it, so that what
/// is asked of the pool does not hang on which threads are at work at once.
template <class T>
class Workspaces {
 public:
  Workspaces(int64_t count, int64_t numbers)
      : size_(Workspace<T>::whole(numbers)),
        buffer_(Buffer::allocate(static_cast<std::size_t>(count * size_) * sizeof(T))) {}
  Workspace<T> at(int64_t i) const { return Workspace<T>(data() + i * size_); }
  T* data() const { return reinterpret_cast<T*>(buffer_->data()); }

 private:
  int64_t size_;
  std::shared_ptr<Buffer> buffer_;
};

/// y[i] = x[i] as a number to calculate with, for i < n.
template <class S, class T>
HWY_INLINE void widen(const S* x, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<S, T>) {
    for (; i + lanes<T>() <= n; i += lanes<T>()) store<T>(load(x + i), y + i);
  } else {
    constexpr int64_t N = lanes<float>();
    for (; i + N <= n; i += N) {
#if HWY_TARGET != HWY_SCALAR
      if constexpr (std::is_same_v<S, bfloat16>) {
        const hn::Rebind<std::uint16_t, Tag<float>> narrow;
        const hn::Rebind<std::uint32_t, Tag<float>> wide;
        const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(x + i));
        store<float>(hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits))), y + i);
      } else {
        const hn::Rebind<hwy::float16_t, Tag<float>> narrow;
        const auto half = hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(x + i));
        store<float>(hn::PromoteTo(Tag<float>(), half), y + i);
      }
#else
      y[i] = static_cast<float>(x[i]);
#endif
    }
  }
  for (; i < n; ++i) y[i] = static_cast<T>(x[i]);
}

/// y[i] = scale * x[i] for the n numbers of a row of int8.
HWY_INLINE void widen(const std::uint8_t* row, int64_t n, float* y) {
  float scale;
  std::memcpy(&scale, row, sizeof(scale));
  const auto* x = reinterpret_cast<const std::int8_t*>(row + kInt8RowScale);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Rebind<std::int8_t, Tag<float>> narrow;
  const hn::Rebind<std::int32_t, Tag<float>> wide;
  const Vec<float> factor = broadcast(scale);
  for (; i + lanes<float>() <= n; i += lanes<float>()) {
    const auto numbers = hn::ConvertTo(Tag<float>(), hn::PromoteTo(wide, hn::LoadU(narrow, x + i)));
    store<float>(hn::Mul(numbers, factor), y + i);
  }
#endif
  for (; i < n; ++i) y[i] = static_cast<float>(x[i]) * scale;
}

/// `count` rows of `width` stored numbers to calculate with: where they lie if those are their types and they
/// are dense whole vectors, else copied to `workspace` [count, padded width]. (Rows far from each other would
/// take turns in a few places of the cache.)
template <class T, class S>
HWY_INLINE RowMajor<const T> rows_of(const S* from, int64_t stride, int64_t count, int64_t width,
                                     T* workspace) {
  if constexpr (std::is_same_v<S, T>) {
    if (stride == width && width % lanes<T>() == 0) return {from, stride};
  }
  const int64_t wide = padded<T>(width);
  for (int64_t i = 0; i < count; ++i) {
    widen(from + i * stride, width, workspace + i * wide);
    std::fill(workspace + i * wide + width, workspace + (i + 1) * wide, T(0));
  }
  return {workspace, wide};
}

/// Keys or values in the type they are stored in, which attention learns by one call for many rows: so its
/// loops are compiled only for the type it calculates in.
template <class T>
class Stored {
 public:
  template <class S>
  Stored(const S* data, const AttentionPages<S>& pages, const AttentionStrides& strides)
      : data_(data), strides_(strides), read_(&read<S>) {
    if (pages.data == nullptr) return;
    data_ = &pages;
    read_ = &read_page<S>;
  }
  /// Rows [which.begin, which.end) of one head, all of one block, as rows_of gives them.
  RowMajor<const T> rows(HeadIndex at, Interval which, int64_t width, T* workspace) const {
    return read_(data_, strides_, at, which, width, workspace);
  }

 private:
  template <class S>
  static HWY_NOINLINE RowMajor<const T> read(const void* data, const AttentionStrides& strides, HeadIndex at,
                                             Interval which, int64_t width, T* workspace) {
    const S* from = head_of(static_cast<const S*>(data), strides, at.b, at.h) + which.begin * strides.row;
    return rows_of<T>(from, strides.row, which.size(), width, workspace);
  }
  template <class S>
  static HWY_NOINLINE RowMajor<const T> read_page(const void* data, const AttentionStrides& strides,
                                                  HeadIndex at, Interval which, int64_t width, T* workspace) {
    const auto& pages = *static_cast<const AttentionPages<S>*>(data);
    const int64_t page = at.b * pages.row_pages + which.begin / kAttentionPage;
    const int64_t row = at.h * pages.capacities[page] + which.begin % kAttentionPage;
    return rows_of<T>(pages.data[page] + row * strides.row, strides.row, which.size(), width, workspace);
  }

  const void* data_;
  const AttentionStrides& strides_;
  RowMajor<const T> (*read_)(const void*, const AttentionStrides&, HeadIndex, Interval, int64_t, T*);
};

/// AttentionForward for keys and values of any type.
template <class T>
struct ForwardArgs {
  template <class S>
  ForwardArgs(const AttentionShape& shape, const AttentionForward<S>& a)
      : q(a.q),
        k(a.k, a.k_pages, shape.k),
        v(a.v, a.v_pages, shape.v),
        o(a.o),
        logsumexp(a.logsumexp),
        weights(a.weights),
        weight_heads(a.weight_heads),
        weight_rows(a.weight_rows),
        weight_row_count(a.weight_row_count) {}

  const T* q;
  Stored<T> k, v;
  T *o, *logsumexp, *weights;
  const bool* weight_heads;
  const int64_t* weight_rows;
  int64_t weight_row_count;
};

/// x[i] *= factor for i < n.
template <class T>
HWY_INLINE void scale_row(T factor, int64_t n, T* x) {
  const Vec<T> f = broadcast(factor);
  map_range<T>(
      0, n, x, [=](auto v) HWY_ATTR { return hn::Mul(v, f); }, static_cast<const T*>(x));
}

/// x[i] = factor * tanh(x[i]) for i < n.
template <class T>
HWY_NOINLINE void cap_row(T factor, int64_t n, T* x) {
  const Vec<T> f = broadcast(factor);
  map_range<T>(
      0, n, x, [=](auto v) HWY_ATTR { return hn::Mul(f, tanh_of(v)); }, static_cast<const T*>(x));
}

/// 1 / sum, and 0 for a query that saw nothing.
template <class V>
HWY_INLINE V inverse_of(V sum) {
  const hn::DFromV<V> d;
  return hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), sum, hn::Div(hn::Set(d, 1), sum));
}
/// The natural logarithm of the sum of e^score, -inf for a query that saw nothing.
template <class V>
HWY_INLINE V logsumexp_of(V largest, V sum) {
  const hn::DFromV<V> d;
  return hn::MulAdd(largest, hn::Set(d, kLn2<hn::TFromD<hn::DFromV<V>>>), log_of(sum));
}

/// The sum of eight parts, in an order that vectors across queries can follow.
template <class V>
HWY_INLINE V sum_eight(const V* p) {
  return hn::Add(hn::Add(hn::Add(p[0], p[1]), hn::Add(p[2], p[3])),
                 hn::Add(hn::Add(p[4], p[5]), hn::Add(p[6], p[7])));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
