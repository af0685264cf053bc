// Attention forward. A task is a group of queries of one head. It walks over the keys block by block, each
// block serving all its queries while it lies in cache: products with the keys, softmax, products with the
// values. Few queries go by rows instead (attention_rows-inl.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/attention.h"
#include "kernels/cpu/attention_rows-inl.h"
#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Tiles of queries in a task at most.
inline constexpr int64_t kGroupTiles = 8;

/// One tile's worth of a task's queries.
template <class T>
struct GroupTile {
  TileQueries queries{{0, 0}, 0, 0};
  Interval keys{0, 0};     // that some of them may see
  T* q = nullptr;          // [head_dim, kTileQueries], scaled
  Softmax<T> span, total;  // over the keys of the span at hand, and of all spans
};

/// What one thread needs.
template <class S>
struct GroupRoom {
  using T = AttentionCompute<S>;
  static constexpr int64_t W = kTileQueries<T>;

  static int64_t numbers(const AttentionShape& s) {
    const int64_t tile = W * s.head_dim + 2 * Softmax<T>::numbers(s.value_dim);
    const int64_t keys = kKeyBlock * (padded<T>(s.head_dim) + padded<T>(s.value_dim));
    return kGroupTiles * Room<T>::whole(tile) + kKeyBlock * W + TileRoom<T>::kNumbers + keys +
           W * Room<T>::whole(s.value_dim) + 64 * (kGroupTiles + 4);
  }
  explicit GroupRoom(const AttentionShape& s)
      : room(numbers(s)),
        tile_room(room),
        scores(room.take(kKeyBlock * W)),
        keys(room.take(kKeyBlock * padded<T>(s.head_dim))),
        values(room.take(kKeyBlock * padded<T>(s.value_dim))),
        out(room.take(W * Room<T>::whole(s.value_dim))) {
    for (int64_t i = 0; i < kGroupTiles; ++i) {
      T* q = room.take(W * s.head_dim);
      const Softmax<T> span(room, s.value_dim), total(room, s.value_dim);
      tiles.push_back({{{0, 0}, 0, 0}, {0, 0}, q, span, total});
    }
  }

  Room<T> room;
  TileRoom<T> tile_room;
  T *scores, *keys, *values, *out;
  std::vector<GroupTile<T>> tiles;
};

template <class S>
class TileForward {
 public:
  using T = AttentionCompute<S>;
  static constexpr int64_t W = kTileQueries<T>;

  TileForward(const AttentionShape& shape, const AttentionOptions<T>& options,
              const AttentionForward<S>& args, const Rules<T>& rules)
      : s_(shape), o_(options), a_(args), rules_(rules), keep_(options.random, options.dropout) {}

  void run() const {
    // What a group holds changes no number.
    int64_t tiles = kGroupTiles;
    while (tiles > 1 && s_.batch * s_.heads * (s_.queries / (tiles * W)) < 4 * threads()) tiles /= 2;
    const int64_t size = tiles * W, groups = (s_.queries + size - 1) / size;
    const int64_t step = spreading_step(groups);
    const int64_t work = std::min(size, s_.queries) * s_.keys * (s_.head_dim + s_.value_dim) / 8;
    parallel_for(s_.batch * s_.heads * groups, row_grain(work), [&](int64_t begin, int64_t end) HWY_ATTR {
      GroupRoom<S> room(s_);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / groups, group = task % groups * step % groups;
        const Interval queries{group * size, std::min((group + 1) * size, s_.queries)};
        const int64_t placed = place_tiles({head / s_.heads, head % s_.heads}, queries, room);
        const bool one_span = walk(placed, room);
        for (int64_t i = 0; i < placed; ++i) {
          const GroupTile<T>& tile = room.tiles[static_cast<std::size_t>(i)];
          write(tile.queries, one_span ? tile.span : tile.total, room);
        }
      }
    });
  }

 private:
  /// Fills in the tiles of the queries; returns how many there are.
  int64_t place_tiles(HeadIndex at, Interval queries, GroupRoom<S>& room) const {
    int64_t tiles = 0;
    for (int64_t t = queries.begin; t < queries.end; t += W) {
      GroupTile<T>& tile = room.tiles[static_cast<std::size_t>(tiles++)];
      tile.queries = {at, t, std::min(W, queries.end - t)};
      tile.keys = rules_.visible_block(at.b, t, tile.queries.count);
      const T* q = head_of(a_.q, s_.q, at.b, at.h) + t * s_.q.row;
      pack_transposed<T>(tile.queries.count, s_.head_dim, {q, s_.q.row}, {tile.q, W});
      scale_row(rules_.query_factor(), s_.head_dim * W, tile.q);
    }
    return tiles;
  }

  /// Takes the tiles over all keys; returns whether those lay in one span, which then is the whole.
  bool walk(int64_t tiles, GroupRoom<S>& room) const {
    const GroupTile<T>&front = room.tiles.front(), &back = room.tiles[static_cast<std::size_t>(tiles - 1)];
    const HeadIndex at = front.queries.at;
    const Interval seen{front.keys.begin, back.keys.end};
    const int64_t first = seen.begin / kSpan * kSpan;
    const bool one_span = seen.end <= first + kSpan;
    const auto clear = [&](auto part) {
      for (int64_t i = 0; i < tiles; ++i) (room.tiles[static_cast<std::size_t>(i)].*part).clear(s_.value_dim);
    };
    clear(one_span ? &GroupTile<T>::span : &GroupTile<T>::total);
    for (int64_t span = first; span < seen.end; span += kSpan) {
      const Interval keys = both(seen, {span, span + kSpan});
      if (!one_span) clear(&GroupTile<T>::span);
      for (int64_t block = keys.begin / kKeyBlock * kKeyBlock; block < keys.end; block += kKeyBlock) {
        const Interval here = both(keys, {block, block + kKeyBlock});
        if (rules_.any_present(at.b, here)) take_block(at, block, here, tiles, room);
      }
      for (int64_t i = 0; i < tiles && !one_span; ++i) {
        const GroupTile<T>& tile = room.tiles[static_cast<std::size_t>(i)];
        join_tile(tile_width<T>(tile.queries), s_.value_dim, tile.span, tile.total);
      }
    }
    return one_span;
  }

  /// All tiles with the keys `here` of one block.
  void take_block(HeadIndex at, int64_t block, Interval here, int64_t tiles, GroupRoom<S>& room) const {
    const int64_t kv = at.h / (s_.heads / s_.kv_heads);
    const S* k = head_of(a_.k, s_.k, at.b, kv) + here.begin * s_.k.row;
    const S* v = head_of(a_.v, s_.v, at.b, kv) + here.begin * s_.v.row;
    const Rows<const T> keys = rows_of<T>(k, s_.k.row, here.size(), s_.head_dim, room.keys);
    const Rows<const T> values = rows_of<T>(v, s_.v.row, here.size(), s_.value_dim, room.values);
    for (int64_t i = 0; i < tiles; ++i) {
      const GroupTile<T>& tile = room.tiles[static_cast<std::size_t>(i)];
      const Interval seen = both(here, tile.keys);
      if (seen.empty()) continue;
      const int64_t skip = seen.begin - here.begin, n = seen.size(), width = tile_width<T>(tile.queries);
      T* scores = room.scores + (seen.begin - block) * W;
      tile_multiply<T>(n, width, s_.head_dim, Left<T>{keys.data + skip * keys.stride, keys.stride, 1},
                       {tile.q, W}, {scores, W}, false);
      finish_tile(rules_, tile.queries, seen, room.tile_room, scores);
      soften_tile({seen.begin - block, seen.end - block}, width, s_.value_dim, tile.span, room.scores);
      if (o_.dropout > 0) {
        dropout_tile(rules_, keep_, tile.queries, seen, room.tile_room);
        each_vector<T>(tile.queries, n, [&](int64_t, int64_t, int64_t p) HWY_ATTR {
          store<T>(hn::Mul(load(scores + p), load(room.tile_room.by_key + p)), scores + p);
        });
      }
      tile_multiply<T>(s_.value_dim, width, n, Left<T>{values.data + skip * values.stride, 1, values.stride},
                       {scores, W}, {tile.span.o, W}, true);
    }
  }

  void write(const TileQueries& q, const Softmax<T>& result, GroupRoom<S>& room) const {
    const int64_t wide = Room<T>::whole(s_.value_dim);
    T logsumexps[W];
    for (int64_t w = 0; w < tile_width<T>(q); w += lanes<T>()) {
      const Vec<T> sum = load(result.sum + w), inverse = inverse_of(sum);
      store<T>(logsumexp_of(load(result.largest + w), sum), logsumexps + w);
      for (int64_t c = 0; c < s_.value_dim; ++c) {
        T* o = result.o + c * W + w;
        store<T>(hn::Mul(load(o), inverse), o);
      }
    }
    pack_transposed<T>(s_.value_dim, q.count, {result.o, W}, {room.out, wide});
    for (int64_t i = 0; i < q.count; ++i) {
      T* o = head_of(a_.o, s_.o, q.at.b, q.at.h) + (q.first + i) * s_.o.row;
      std::copy(room.out + i * wide, room.out + i * wide + s_.value_dim, o);
    }
    if (a_.logsumexp == nullptr) return;
    T* out = a_.logsumexp + (q.at.b * s_.heads + q.at.h) * s_.queries + q.first;
    std::copy(logsumexps, logsumexps + q.count, out);
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const AttentionForward<S>& a_;
  const Rules<T>& rules_;
  Keep keep_;
};

template <class S>
void attention(const AttentionShape& shape, const AttentionOptions<AttentionCompute<S>>& options,
               const AttentionForward<S>& args) {
  using T = AttentionCompute<S>;
  if (shape.batch * shape.heads * shape.queries == 0) return;
  const Rules<T> rules(shape, options);
  AttentionForward<S> wanted = args;
  std::shared_ptr<Buffer> logsumexp;  // weights need it
  if (args.weights != nullptr && args.logsumexp == nullptr) {
    const int64_t count = shape.batch * shape.heads * shape.queries;
    logsumexp = Buffer::allocate(static_cast<std::size_t>(count) * sizeof(T));
    wanted.logsumexp = reinterpret_cast<T*>(logsumexp->data());
  }
  if (RowForward<S>::suits(shape)) {
    RowForward<S>(shape, options, wanted, rules).run();
  } else {
    TileForward<S>(shape, options, wanted, rules).run();
  }
  if (args.weights != nullptr) RowWeights<S>(shape, wanted, rules).run();
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(attention);

template <class S>
void attention(const AttentionShape& shape, const AttentionOptions<AttentionCompute<S>>& options,
               const AttentionForward<S>& args) {
  HEED_DISPATCH(attention, S)(shape, options, args);
}
template void attention(const AttentionShape&, const AttentionOptions<float>&,
                        const AttentionForward<float>&);
template void attention(const AttentionShape&, const AttentionOptions<double>&,
                        const AttentionForward<double>&);
template void attention(const AttentionShape&, const AttentionOptions<float>&,
                        const AttentionForward<bfloat16>&);
template void attention(const AttentionShape&, const AttentionOptions<float>&,
                        const AttentionForward<float16>&);

}  // namespace heed::kernels
#endif
