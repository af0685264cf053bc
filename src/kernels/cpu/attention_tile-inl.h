// A tile of scores with keys as rows and queries on the lanes of vectors: maxima, sums and rescaling need no
// operations across a vector, and keys and values are read where they lie, a number at a time, broadcast.
// Lanes know nothing of each other: a query's numbers do not depend on its neighbors in the tile.
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

/// Some of a tile's lanes, in whole vectors, with keys of which each vector sees some.
struct TilePart {
  Interval keys;
  Interval lanes;
};
/// What a tile and some keys of a block are cut into: vectors of queries that see none of some keys, as
/// beside a causal diagonal, are left out.
struct TileParts {
  TilePart part[kKeyBlock / kSumParts];
  int64_t count = 0;
  const TilePart* begin() const { return part; }
  const TilePart* end() const { return part + count; }
};
template <class T>
HWY_NOINLINE TileParts cut_tile(const MaskAndBias<T>& mask_and_bias, const TileQueries& q, int64_t block,
                                Interval keys) {
  constexpr int64_t N = lanes<T>();
  TileParts parts;
  const int64_t width = tile_width<T>(q);
  const Interval all = mask_and_bias.visible_to_all(q.at.b, q.first, q.count);
  const auto all_see = [=](Interval some) { return all.begin <= some.begin && some.end <= all.end; };
  if (all_see(keys)) {
    parts.part[parts.count++] = {keys, {0, width}};
    return parts;
  }
  const auto sees = [&](int64_t lane, Interval some) {
    return !both(some, mask_and_bias.visible_block(q.at.b, q.first + lane, std::min(N, q.count - lane)))
                .empty();
  };
  for (int64_t s = block; s < keys.end; s += kSumParts) {
    const Interval some = both(keys, {s, s + kSumParts});
    Interval seeing{0, width};
    while (!some.empty() && !seeing.empty() && !sees(seeing.begin, some)) seeing.begin += N;
    while (!some.empty() && !seeing.empty() && !sees(seeing.end - N, some)) seeing.end -= N;
    if (some.empty() || seeing.empty()) continue;
    TilePart* last = parts.count > 0 ? parts.part + parts.count - 1 : nullptr;
    // Keys that all see need no further work on their scores, and stay by themselves.
    if (last != nullptr && last->keys.end == some.begin && last->lanes.begin == seeing.begin &&
        last->lanes.end == seeing.end && all_see(last->keys) == all_see(some)) {
      last->keys.end = some.end;
    } else {
      parts.part[parts.count++] = {some, seeing};
    }
  }
  return parts;
}
/// The queries of a part.
HWY_INLINE TileQueries queries_of(const TileQueries& q, const TilePart& part) {
  return {q.at, q.first + part.lanes.begin, std::min(part.lanes.end, q.count) - part.lanes.begin};
}

/// Workspace for what is prepared a query at a time and then transposed to the tile's layout.
template <class T>
struct TileWorkspace {
  static constexpr int64_t kNumbers = 2 * kTileQueries<T> * kKeyBlock + kTileQueries<T> + kKeyBlock;
  explicit TileWorkspace(Workspace<T>& workspace)
      : by_query(workspace.take(kTileQueries<T> * kKeyBlock)),
        by_key(workspace.take(kTileQueries<T> * kKeyBlock)),
        distances(workspace.take(kTileQueries<T> + kKeyBlock)) {}
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

/// Caps the n rows of a tile; `slopes`, if not null, gets the derivatives 1 - tanh^2, laid out like it.
template <class T>
HWY_NOINLINE void cap_tile(const MaskAndBias<T>& mask_and_bias, const TileQueries& q, int64_t n, T* tile,
                           T* slopes) {
  const Vec<T> factor = broadcast(mask_and_bias.cap_factor());
  each_vector<T>(q, n, [&](int64_t, int64_t, int64_t at) HWY_ATTR {
    const Vec<T> y = tanh_of(load(tile + at));
    store<T>(hn::Mul(factor, y), tile + at);
    if (slopes != nullptr) store<T>(hn::NegMulAdd(y, y, broadcast(T(1))), slopes + at);
  });
}

/// Turns the products of `keys` with a tile's queries, tile [keys, kTileQueries], into scores; returns
/// whether that changed any. `slopes`, if not null, gets the derivatives of capped scores.
template <class T>
HWY_INLINE bool finish_tile(const MaskAndBias<T>& mask_and_bias, const TileQueries& q, Interval keys,
                            TileWorkspace<T>& workspace, T* tile, T* slopes = nullptr) {
  const int64_t n = keys.size();
  const bool capped = mask_and_bias.has_cap();
  if (capped) cap_tile(mask_and_bias, q, n, tile, slopes);
  const Interval all = mask_and_bias.visible_to_all(q.at.b, q.first, q.count);
  const bool by_distance = mask_and_bias.has_distance_terms() || all.begin > keys.begin || all.end < keys.end;
  if (by_distance) {
    const int64_t nearest = mask_and_bias.position(q.at.b, q.first) - (keys.end - 1);
    mask_and_bias.distance_terms(q.at.h, nearest, tile_width<T>(q) + n - 1, workspace.distances);
    each_vector<T>(q, n, [&](int64_t i, int64_t w, int64_t at) HWY_ATTR {
      store<T>(hn::Add(load(tile + at), load(workspace.distances + n - 1 - i + w)), tile + at);
    });
  }
  const bool starts = mask_and_bias.starts_after(keys.begin, q.at.b, q.first, q.count);
  if (!starts && !mask_and_bias.has_terms(q.at.b, keys)) return by_distance || capped;
  if (!starts && !mask_and_bias.terms_by_query()) {
    mask_and_bias.terms_row(q.at, q.first, keys, workspace.by_query);
    each_vector<T>(q, n, [&](int64_t i, int64_t, int64_t at) HWY_ATTR {
      store<T>(hn::Add(load(tile + at), broadcast(workspace.by_query[i])), tile + at);
    });
    return true;
  }
  for (int64_t i = 0; i < q.count; ++i) {
    mask_and_bias.terms_row(q.at, q.first + i, keys, workspace.by_query + i * kKeyBlock);
  }
  pack_transposed<T>(q.count, n, {workspace.by_query, kKeyBlock}, {workspace.by_key, kTileQueries<T>},
                     kTileQueries<T>);
  each_vector<T>(q, n, [&](int64_t, int64_t, int64_t at) HWY_ATTR {
    store<T>(hn::Add(load(tile + at), load(workspace.by_key + at)), tile + at);
  });
  return true;
}

/// The factors of dropout for a tile, laid out like it in workspace.by_key.
template <class T>
HWY_INLINE void dropout_tile(const MaskAndBias<T>& mask_and_bias, const Keep& keep, const TileQueries& q,
                             Interval keys, TileWorkspace<T>& workspace) {
  for (int64_t i = 0; i < q.count; ++i) {
    keep.factors(mask_and_bias.dropout_index(q.at, q.first + i, keys.begin), keys.size(),
                 workspace.by_query + i * kKeyBlock);
  }
  pack_transposed<T>(q.count, keys.size(), {workspace.by_query, kKeyBlock},
                     {workspace.by_key, kTileQueries<T>}, kTileQueries<T>);
}

/// The state of a softmax over keys for kTileQueries queries.
template <class T>
struct Softmax {
  T* largest;  // [kTileQueries]
  T* sum;      // [kTileQueries], of 2^(score - largest)
  T* o;        // [value_dim, kTileQueries], of 2^(score - largest) v

  static int64_t numbers(int64_t value_dim) { return (value_dim + 2) * kTileQueries<T>; }
  Softmax(Workspace<T>& workspace, int64_t value_dim)
      : largest(workspace.take(kTileQueries<T>)),
        sum(workspace.take(kTileQueries<T>)),
        o(workspace.take(value_dim * kTileQueries<T>)) {}
  void clear(int64_t value_dim) const {
    std::fill(largest, largest + kTileQueries<T>, kNoScore<T>);
    std::fill(sum, sum + kTileQueries<T>, T(0));
    std::fill(o, o + value_dim * kTileQueries<T>, T(0));
  }
};

/// largest[i] = the largest of start[i] and column i of a tile's first n rows.
template <class T>
HWY_NOINLINE void find_largest(int64_t n, int64_t width, const T* start, const T* tile, T* largest) {
  for (int64_t w = 0; w < width; w += lanes<T>()) {
    Vec<T> most = load(start + w);
    for (int64_t i = 0; i < n; ++i) most = hn::Max(most, load(tile + i * kTileQueries<T> + w));
    store<T>(most, largest + w);
  }
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

/// Takes a block's scores, tile [kKeyBlock, kTileQueries], into the softmax, whose largest score becomes
/// `most`; scores of present `parts` become probabilities in units of it.
template <class T>
HWY_NOINLINE void online_softmax_update_tile(const TileParts& parts, int64_t block, int64_t value_dim,
                                             const T* most, const Softmax<T>& to, T* tile) {
  constexpr int64_t W = kTileQueries<T>, N = lanes<T>();
  if (parts.count == 0) return;
  Interval rows[kTileVectors];  // of each vector
  std::fill(rows, rows + kTileVectors, Interval{kKeyBlock, 0});
  for (const TilePart& part : parts) {
    // Sums go by whole runs of kSumParts rows.
    const int64_t first = part.keys.begin - block, last = part.keys.end - block;
    const Interval whole{first / kSumParts * kSumParts, (last + kSumParts - 1) / kSumParts * kSumParts};
    const T lowest = -std::numeric_limits<T>::infinity();
    std::fill(tile + whole.begin * W, tile + first * W, lowest);
    std::fill(tile + last * W, tile + whole.end * W, lowest);
    for (int64_t w = part.lanes.begin / N; w < part.lanes.end / N; ++w) {
      rows[w] = {std::min(rows[w].begin, whole.begin), std::max(rows[w].end, whole.end)};
    }
  }
  for (int64_t w = 0; w < W; w += N) {
    const Interval seen = rows[w / N];
    if (seen.empty()) continue;
    const Vec<T> before = load(to.largest + w), largest = load(most + w);
    const Vec<T> factor = exp2_of(hn::Sub(before, largest));
    if (!hn::AllTrue(Tag<T>(), hn::Eq(before, largest))) {
      store<T>(largest, to.largest + w);
      // Nothing is there yet when no query of the vector has seen a key.
      const bool empty = hn::AllTrue(Tag<T>(), hn::Eq(before, broadcast(kNoScore<T>)));
      for (int64_t c = 0; c < value_dim && !empty; ++c)
        store<T>(hn::Mul(load(to.o + c * W + w), factor), to.o + c * W + w);
    }
    const Vec<T> low = exponentials<T>(0, seen, largest, tile + w);
    const Vec<T> high = exponentials<T>(8, seen, largest, tile + w);
    store<T>(hn::MulAdd(load(to.sum + w), factor, hn::Add(low, high)), to.sum + w);
  }
}

/// total = total and part together.
template <class T>
HWY_NOINLINE void merge_partials_tile(int64_t width, int64_t value_dim, const Softmax<T>& part,
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
