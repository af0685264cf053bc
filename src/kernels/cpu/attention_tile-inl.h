// A tile of scores with keys as rows and queries on the lanes of vectors: maxima, sums and rescaling need no
// operations across a vector, and keys and values are read where they lie, a number at a time, broadcast.
// Lanes know nothing of each other: a query's numbers do not depend on its neighbours in the tile.
#if defined(HEED_KERNELS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_INL_H_
#endif

#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// The queries [first, first + count) of one head, count <= kTileQueries.
struct TileQueries {
  HeadIndex at;
  int64_t first;
  int64_t count;
};
/// Their number in whole vectors; the tile beyond is not touched.
template <class T>
HWY_INLINE int64_t tile_width(const TileQueries& q) {
  return padded<T>(q.count);
}

/// Room for what is prepared a query at a time and then turned to lie like the tile.
template <class T>
struct TileRoom {
  static constexpr int64_t kNumbers = 2 * kTileQueries<T> * kKeyBlock + kTileQueries<T> + kKeyBlock;
  explicit TileRoom(Room<T>& room)
      : by_query(room.take(kTileQueries<T> * kKeyBlock)),
        by_key(room.take(kTileQueries<T> * kKeyBlock)),
        distances(room.take(kTileQueries<T> + kKeyBlock)) {}
  T* by_query;   // [kTileQueries, kKeyBlock]
  T* by_key;     // [kKeyBlock, kTileQueries]
  T* distances;  // what is added at each distance that occurs in the tile
};

/// Calls fn(row, lane, offset) for each vector of a tile's n rows; it starts at a lane and lies at tile +
/// offset.
template <class T, class Fn>
HWY_INLINE void each_vector(const TileQueries& q, int64_t n, Fn fn) {
  const int64_t width = tile_width<T>(q);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t w = 0; w < width; w += lanes<T>()) fn(i, w, i * kTileQueries<T> + w);
  }
}

/// Turns the products of `keys` with a tile's queries, tile [keys, kTileQueries], into scores.
template <class T>
HWY_INLINE void finish_tile(const Rules<T>& rules, const TileQueries& q, Interval keys, TileRoom<T>& room,
                            T* tile) {
  const int64_t n = keys.size();
  const Interval all = rules.visible_to_all(q.at.b, q.first, q.count);
  if (rules.has_distance_terms() || all.begin > keys.begin || all.end < keys.end) {
    const int64_t nearest = rules.position(q.at.b, q.first) - (keys.end - 1);
    rules.distance_terms(q.at.h, nearest, tile_width<T>(q) + n - 1, room.distances);
    each_vector<T>(q, n, [&](int64_t i, int64_t w, int64_t at) HWY_ATTR {
      store<T>(hn::Add(load(tile + at), load(room.distances + n - 1 - i + w)), tile + at);
    });
  }
  if (!rules.has_terms(q.at.b, keys)) return;
  if (!rules.terms_by_query()) {
    rules.terms_row(q.at, q.first, keys, room.by_query);
    each_vector<T>(q, n, [&](int64_t i, int64_t, int64_t at) HWY_ATTR {
      store<T>(hn::Add(load(tile + at), broadcast(room.by_query[i])), tile + at);
    });
    return;
  }
  for (int64_t i = 0; i < q.count; ++i) {
    rules.terms_row(q.at, q.first + i, keys, room.by_query + i * kKeyBlock);
  }
  pack_transposed<T>(q.count, n, {room.by_query, kKeyBlock}, {room.by_key, kTileQueries<T>});
  each_vector<T>(q, n, [&](int64_t, int64_t, int64_t at) HWY_ATTR {
    store<T>(hn::Add(load(tile + at), load(room.by_key + at)), tile + at);
  });
}

/// The factors of dropout for a tile, laid out like it in room.by_key.
template <class T>
HWY_INLINE void dropout_tile(const Rules<T>& rules, const Keep& keep, const TileQueries& q, Interval keys,
                             TileRoom<T>& room) {
  for (int64_t i = 0; i < q.count; ++i) {
    keep.factors(rules.dropout_index(q.at, q.first + i, keys.begin), keys.size(),
                 room.by_query + i * kKeyBlock);
  }
  pack_transposed<T>(q.count, keys.size(), {room.by_query, kKeyBlock}, {room.by_key, kTileQueries<T>});
}

/// The state of a softmax over keys for kTileQueries queries.
template <class T>
struct Softmax {
  T* largest;  // [kTileQueries]
  T* sum;      // [kTileQueries], of 2^(score - largest)
  T* o;        // [value_dim, kTileQueries], of 2^(score - largest) v

  static int64_t numbers(int64_t value_dim) { return (value_dim + 2) * kTileQueries<T>; }
  Softmax(Room<T>& room, int64_t value_dim)
      : largest(room.take(kTileQueries<T>)),
        sum(room.take(kTileQueries<T>)),
        o(room.take(value_dim * kTileQueries<T>)) {}
  void clear(int64_t value_dim) const {
    std::fill(largest, largest + kTileQueries<T>, kNoScore<T>);
    std::fill(sum, sum + kTileQueries<T>, T(0));
    std::fill(o, o + value_dim * kTileQueries<T>, T(0));
  }
};

/// Largest of a vector's column in rows [0, n) of a tile.
template <class T>
HWY_INLINE Vec<T> column_max(const T* tile, int64_t n) {
  constexpr int64_t W = kTileQueries<T>;
  Vec<T> a = broadcast(kNoScore<T>), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a = hn::Max(a, load(tile + i * W));
    b = hn::Max(b, load(tile + (i + 1) * W));
    c = hn::Max(c, load(tile + (i + 2) * W));
    d = hn::Max(d, load(tile + (i + 3) * W));
  }
  for (; i < n; ++i) a = hn::Max(a, load(tile + i * W));
  return hn::Max(hn::Max(a, b), hn::Max(c, d));
}

/// Rows first, ..., first + 7 of each 16 in [begin, end) become 2^(score - largest); returns their sum.
template <class T>
HWY_INLINE Vec<T> exponentials(int64_t first, Interval rows, Vec<T> largest, T* tile) {
  Vec<T> parts[8];
  for (auto& part : parts) part = hn::Zero(Tag<T>());
  for (int64_t i = rows.begin + first; i < rows.end; i += kSumParts) {
    for (int64_t j = 0; j < 8; ++j) {
      T* at = tile + (i + j) * kTileQueries<T>;
      const Vec<T> p = exp2_of(hn::Sub(load(at), largest));
      store<T>(p, at);
      parts[j] = hn::Add(parts[j], p);
    }
  }
  return sum_eight(parts);
}

/// Takes the scores of rows [rows.begin, rows.end) of a block, tile [kKeyBlock, kTileQueries], into the
/// softmax; they become probabilities in units of its largest.
template <class T>
HWY_NOINLINE void soften_tile(Interval rows, int64_t width, int64_t value_dim, const Softmax<T>& to,
                              T* tile) {
  constexpr int64_t W = kTileQueries<T>;
  const Interval whole{rows.begin / kSumParts * kSumParts,
                       (rows.end + kSumParts - 1) / kSumParts * kSumParts};
  const T lowest = -std::numeric_limits<T>::infinity();
  std::fill(tile + whole.begin * W, tile + rows.begin * W, lowest);
  std::fill(tile + rows.end * W, tile + whole.end * W, lowest);
  for (int64_t w = 0; w < width; w += lanes<T>()) {
    const Vec<T> before = load(to.largest + w);
    const Vec<T> largest = hn::Max(before, column_max(tile + rows.begin * W + w, rows.size()));
    const Vec<T> factor = exp2_of(hn::Sub(before, largest));
    if (!hn::AllTrue(Tag<T>(), hn::Eq(before, largest))) {
      store<T>(largest, to.largest + w);
      for (int64_t c = 0; c < value_dim; ++c)
        store<T>(hn::Mul(load(to.o + c * W + w), factor), to.o + c * W + w);
    }
    const Vec<T> low = exponentials<T>(0, whole, largest, tile + w);
    const Vec<T> high = exponentials<T>(8, whole, largest, tile + w);
    store<T>(hn::MulAdd(load(to.sum + w), factor, hn::Add(low, high)), to.sum + w);
  }
}

/// total = total and part together.
template <class T>
HWY_NOINLINE void join_tile(int64_t width, int64_t value_dim, const Softmax<T>& part,
                            const Softmax<T>& total) {
  constexpr int64_t W = kTileQueries<T>;
  for (int64_t w = 0; w < width; w += lanes<T>()) {
    const Vec<T> a = load(total.largest + w), b = load(part.largest + w);
    const Vec<T> largest = hn::Max(a, b);
    const Vec<T> fa = exp2_of(hn::Sub(a, largest)), fb = exp2_of(hn::Sub(b, largest));
    const auto join = [&](T* x, const T* y)
                          HWY_ATTR { store<T>(hn::MulAdd(load(x), fa, hn::Mul(load(y), fb)), x); };
    store<T>(largest, total.largest + w);
    join(total.sum + w, part.sum + w);
    for (int64_t c = 0; c < value_dim; ++c) join(total.o + c * W + w, part.o + c * W + w);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
