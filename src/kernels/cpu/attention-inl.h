// What attention's forward and backward share: which keys a query may see, and the scores of a block of
// queries. Causality, windows and lengths confine a query to an interval of keys, which costs nothing per
// element; only the boolean masks are looked at key by key.
#if defined(HEED_KERNELS_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_INL_H_
#undef HEED_KERNELS_ATTENTION_INL_H_
#else
#define HEED_KERNELS_ATTENTION_INL_H_
#endif

#include "kernels/attention.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Queries whose scores a thread holds at a time.
inline constexpr int64_t kQueryBlock = 32;

struct Interval {
  int64_t begin;
  int64_t end;
  bool empty() const { return begin >= end; }
};

/// One (batch, head) of an attention.
struct HeadIndex {
  int64_t b;
  int64_t h;
};

template <class T>
class Scores {
 public:
  Scores(const AttentionShape& shape, const AttentionOptions<T>& options)
      : shape_(shape), options_(options) {}

  /// The position of query t of batch b.
  int64_t position(int64_t b, int64_t t) const {
    return t + (options_.query_offsets != nullptr ? options_.query_offsets[b] : shape_.keys - shape_.queries);
  }

  /// The keys that query t of batch b may see, masks aside.
  Interval visible(int64_t b, int64_t t) const {
    Interval keys{0, shape_.keys};
    if (options_.key_lengths != nullptr)
      keys.end = std::clamp<int64_t>(options_.key_lengths[b], 0, shape_.keys);
    const int64_t place = position(b, t);
    if (options_.causal) keys.end = std::min(keys.end, place + 1);
    if (options_.window > 0) {
      keys.begin = std::max(keys.begin, place - options_.window + 1);
      keys.end = std::min(keys.end, place + options_.window);
    }
    keys.end = std::max<int64_t>(keys.end, 0);
    keys.begin = std::min(keys.begin, keys.end);
    return keys;
  }

  /// The keys that some of the queries [first, first + count) may see, in whole vectors.
  Interval visible_block(int64_t b, int64_t first, int64_t count) const {
    // Both ends only grow with t.
    Interval keys{visible(b, first).begin, visible(b, first + count - 1).end};
    keys.begin = std::min(keys.begin, keys.end) / lanes<T>() * lanes<T>();
    keys.end = padded<T>(keys.end);
    return keys;
  }

  /// Turns the products q . k of query t, row[s] for the visible s, into scores; elsewhere row is left alone.
  HWY_INLINE void finish_row(HeadIndex at, int64_t t, Interval keys, T* row) const {
    const Vec<T> scale = broadcast(static_cast<T>(options_.scale));
    map_range<T>(
        keys.begin, keys.end, row, [=](auto v) HWY_ATTR { return hn::Mul(v, scale); },
        static_cast<const T*>(row));
    if (options_.bias != nullptr) add_bias_row(at, t, keys, row);
    if (options_.relative_bias != nullptr) {
      for (int64_t s = keys.begin; s < keys.end; ++s) row[s] += options_.relative_bias[relative(at, t, s)];
    }
    if (options_.alibi_slopes != nullptr) {
      const T slope = options_.alibi_slopes[at.h];
      const int64_t place = position(at.b, t);
      for (int64_t s = keys.begin; s < keys.end; ++s) row[s] -= slope * static_cast<T>(std::abs(place - s));
    }
    if (options_.key_mask != nullptr) {
      forbid(options_.key_mask + at.b * shape_.keys, 1, keys, row);
    }
    if (options_.mask != nullptr) {
      const MaskStrides& m = options_.mask_strides;
      forbid(options_.mask + at.b * m.batch + at.h * m.head + t * m.query, m.key, keys, row);
    }
  }

  /// Where relative_bias holds what is added to the score of (t, s).
  int64_t relative(HeadIndex at, int64_t t, int64_t s) const {
    const int64_t width = shape_.queries + shape_.keys - 1;
    const int64_t place = s - position(at.b, t) + shape_.keys - 1;
    return at.h * width + std::clamp<int64_t>(place, 0, width - 1);
  }

  std::uint64_t dropout_index(HeadIndex at, int64_t t, int64_t s) const {
    return static_cast<std::uint64_t>(((at.b * shape_.heads + at.h) * shape_.queries + t) * shape_.keys + s);
  }

 private:
  HWY_INLINE void add_bias_row(HeadIndex at, int64_t t, Interval keys, T* row) const {
    const MaskStrides& m = options_.bias_strides;
    const T* bias = options_.bias + at.b * m.batch + at.h * m.head + t * m.query;
    for (int64_t s = keys.begin; s < keys.end; ++s) row[s] += bias[s * m.key];
  }
  static HWY_INLINE void forbid(const bool* allowed, int64_t stride, Interval keys, T* row) {
    const T lowest = -std::numeric_limits<T>::infinity();
    for (int64_t s = keys.begin; s < keys.end; ++s) row[s] = allowed[s * stride] ? row[s] : lowest;
  }

  const AttentionShape& shape_;
  const AttentionOptions<T>& options_;
};

/// A buffer of rows padded to whole vectors.
template <class T>
struct Scratch {
  Scratch(int64_t rows, int64_t columns)
      : stride(padded<T>(columns)), data(static_cast<std::size_t>(rows * stride), T(0)) {}
  Rows<T> rows() { return {data.data(), stride}; }
  Rows<const T> rows() const { return {data.data(), stride}; }
  T* row(int64_t i) { return data.data() + i * stride; }
  const T* row(int64_t i) const { return data.data() + i * stride; }

  int64_t stride;
  std::vector<T> data;
};

template <class P>
HWY_INLINE P* head_of(P* data, const AttentionStrides& strides, int64_t b, int64_t h) {
  return data + b * strides.batch + h * strides.head;
}

/// row = 0 on `block` outside `keys`.
template <class T>
HWY_INLINE void clear_outside(Interval block, Interval keys, T* row) {
  if (keys.empty()) keys = {block.end, block.end};
  std::fill(row + block.begin, row + keys.begin, T(0));
  std::fill(row + keys.end, row + block.end, T(0));
}

/// row[i] *= factors[i] on `keys`.
template <class T>
HWY_INLINE void multiply_row(Interval keys, const T* factors, T* row) {
  map_range<T>(
      keys.begin, keys.end, row, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); },
      static_cast<const T*>(row), factors);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
