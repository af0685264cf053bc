// What the backward pass of attention does with one tile: the memory it works in, the gradients of scores
// whose row has all its keys in the tile, and sums into rows of a gradient.
#if defined(HEED_KERNELS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#undef HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BACKWARD_INL_H_
#endif

#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Keys of a tile here: fewer than forward, because two tiles must stay in cache.
inline constexpr int64_t kBackwardKeys = 64;

/// What one thread needs.
template <class T>
struct BackwardWorkspace {
  static constexpr int64_t W = kTileQueries<T>;

  static int64_t numbers(const AttentionShape& s, int64_t span, bool capped) {
    const int64_t d = padded<T>(s.head_dim), e = padded<T>(s.value_dim);
    return 2 * span * (d + e) + 2 * W * (d + e) + W * d + 2 * W * (kBackwardKeys + 1) +
           (capped ? W * kBackwardKeys : 0) + TileWorkspace<T>::kNumbers + 32 * 16;
  }
  BackwardWorkspace(const AttentionShape& s, int64_t span, bool capped, Workspace<T> workspace)
      : d(padded<T>(s.head_dim)),
        e(padded<T>(s.value_dim)),
        tile_room(workspace),
        keys(workspace.take(span * d)),
        values(workspace.take(span * e)),
        dk(workspace.take(span * d)),
        dv(workspace.take(span * e)),
        q_rows(workspace.take(W * d)),
        do_rows(workspace.take(W * e)),
        q_turned(workspace.take(W * d)),
        do_turned(workspace.take(W * e)),
        dq(workspace.take(W * d)),
        p(workspace.take(W * kBackwardKeys)),
        ds(workspace.take(W * kBackwardKeys)),
        slopes(capped ? workspace.take(W * kBackwardKeys) : nullptr),
        shift(workspace.take(W)),
        delta(workspace.take(W)) {}

  int64_t d, e;  // head_dim and value_dim in whole vectors
  TileWorkspace<T> tile_room;
  T *keys, *values, *dk, *dv;                                 // of the span of keys, [span, d] and [span, e]
  T *q_rows, *do_rows;                                        // of the tile's queries, [W, d] and [W, e]
  RowMajor<const T> q_from{nullptr, 0}, do_from{nullptr, 0};  // where they lie: there or in the tensor
  T *q_turned, *do_turned;                                    // [d, W] and [e, W], q scaled
  T* dq;                                                      // [W, d]
  T *p, *ds, *slopes;                                         // [kBackwardKeys, W]; slopes of a cap, or null
  T *shift, *delta;  // of each query: logsumexp in powers of two, and D
};

/// The rows of the tiles p and ds that a part of a block has to itself.
template <class T>
HWY_INLINE int64_t rows_of_part(const TilePart& part, int64_t block) {
  return (part.keys.begin - block) * kTileQueries<T>;
}

/// dS = P (dP - D), D the sum of P dP over all keys. Large scores leave P, the exponential of their
/// distance from the logsumexp, a few digits short of a sum of one, and where one key has nearly all
/// weight, dP - D is a small rest there: so P is made to sum to one, and dP counted from that of the
/// heaviest key.
template <class T>
void recenter(const TileQueries& tile, const TileParts& parts, int64_t block, BackwardWorkspace<T>& w) {
  constexpr int64_t W = kTileQueries<T>;
  T *const sums = w.shift, *const delta = w.delta;  // what they held has served
  HWY_ALIGN T heaviest[W] = {}, base[W] = {};
  std::fill(sums, sums + W, T(0));
  std::fill(delta, delta + W, T(0));
  const auto each = [&](auto fn) HWY_ATTR {
    for (const TilePart& part : parts) {
      T *p = w.p + rows_of_part<T>(part, block), *ds = w.ds + rows_of_part<T>(part, block);
      const int64_t lane = part.lanes.begin;
      each_vector<T>(queries_of(tile, part), part.keys.size(),
                     [&](int64_t, int64_t i, int64_t at) HWY_ATTR { fn(p + at, ds + at, lane + i); });
    }
  };
  each([&](const T* p, const T* dp, int64_t i) HWY_ATTR {
    const Vec<T> weight = load(p), most = load(heaviest + i);
    const auto heavier = hn::Gt(weight, most);
    store<T>(hn::IfThenElse(heavier, weight, most), heaviest + i);
    store<T>(hn::IfThenElse(heavier, load(dp), load(base + i)), base + i);
  });
  each([&](const T* p, T* dp, int64_t i) HWY_ATTR {
    const Vec<T> weight = load(p), from_base = hn::Sub(load(dp), load(base + i));
    store<T>(from_base, dp);
    store<T>(hn::Add(weight, load(sums + i)), sums + i);
    store<T>(hn::MulAdd(weight, from_base, load(delta + i)), delta + i);
  });
  for (int64_t i = 0; i < W; ++i) {
    sums[i] = sums[i] > 0 ? T(1) / sums[i] : T(0);
    delta[i] *= sums[i];
  }
  each([&](T* p, T* ds, int64_t i) HWY_ATTR {
    const Vec<T> weight = hn::Mul(load(p), load(sums + i));
    store<T>(weight, p);
    store<T>(hn::Mul(weight, hn::Sub(load(ds), load(delta + i))), ds);
  });
}

/// to[rows] += factor * from, of one head.
template <class T>
HWY_INLINE void add_rows(const T* from, int64_t stride, T factor, Interval rows, int64_t width, T* to,
                         const AttentionStrides& strides, int64_t b, int64_t h) {
  if (to == nullptr) return;
  const Vec<T> f = broadcast(factor);
  for (int64_t i = 0; i < rows.size(); ++i) {
    T* row = head_of(to, strides, b, h) + (rows.begin + i) * strides.row;
    map_range<T>(
        0, width, row, [=](auto x, auto y) HWY_ATTR { return hn::MulAdd(x, f, y); }, from + i * stride,
        static_cast<const T*>(row));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
