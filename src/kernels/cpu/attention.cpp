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
template <class T>
struct GroupWorkspace {
  static constexpr int64_t W = kTileQueries<T>;

  static int64_t numbers(const AttentionShape& s) {
    const int64_t tile = W * s.head_dim + 2 * Softmax<T>::numbers(s.value_dim);
    const int64_t keys = kKeyBlock * (padded<T>(s.head_dim) + padded<T>(s.value_dim));
    return kGroupTiles * Workspace<T>::whole(tile) + kKeyBlock * W + TileWorkspace<T>::kNumbers + keys +
           64 * (kGroupTiles + 4);
  }
  GroupWorkspace(const AttentionShape& s, Workspace<T> workspace)
      : tile_room(workspace),
        scores(workspace.take(kKeyBlock * W)),
        keys(workspace.take(kKeyBlock * padded<T>(s.head_dim))),
        values(workspace.take(kKeyBlock * padded<T>(s.value_dim))) {
    for (int64_t i = 0; i < kGroupTiles; ++i) {
      T* q = workspace.take(W * s.head_dim);
      const Softmax<T> span(workspace, s.value_dim), total(workspace, s.value_dim);
      tiles.push_back({{{0, 0}, 0, 0}, {0, 0}, q, span, total});
    }
  }

  TileWorkspace<T> tile_room;
  T *scores, *keys, *values;
  std::vector<GroupTile<T>> tiles;
};

template <class T>
class TileForward {
 public:
  static constexpr int64_t W = kTileQueries<T>;

  TileForward(const AttentionShape& shape, const AttentionOptions<T>& options, const ForwardArgs<T>& args,
              const MaskAndBias<T>& mask_and_bias)
      : s_(shape),
        o_(options),
        a_(args),
        mask_and_bias_(mask_and_bias),
        keep_(options.random, options.dropout) {}

  void run() const {
    // What a group holds changes no number.
    int64_t tiles = kGroupTiles;
    while (tiles > 1 && s_.batch * s_.heads * (s_.queries / (tiles * W)) < 4 * threads()) tiles /= 2;
    const int64_t size = tiles * W, groups = (s_.queries + size - 1) / size;
    const int64_t step = spreading_step(groups);
    const int64_t work = std::min(size, s_.queries) * s_.keys * (s_.head_dim + s_.value_dim) / 8;
    const int64_t tasks = s_.batch * s_.heads * groups, grain = row_grain(work);
    const int64_t team = team_size(tasks, grain);
    const Workspaces<T> workspaces(team, GroupWorkspace<T>::numbers(s_));
    parallel_for_team(team, tasks, grain, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
      GroupWorkspace<T> workspace(s_, workspaces.at(member));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / groups, group = task % groups * step % groups;
        const HeadIndex at{head / s_.heads, head % s_.heads};
        const Interval queries{group * size, std::min((group + 1) * size, mask_and_bias_.queries(at.b))};
        if (queries.empty()) continue;
        const int64_t placed = place_tiles(at, queries, workspace);
        const bool one_span = walk(placed, workspace);
        for (int64_t i = 0; i < placed; ++i) {
          const GroupTile<T>& tile = workspace.tiles[static_cast<std::size_t>(i)];
          write(tile.queries, one_span ? tile.span : tile.total);
        }
      }
    });
  }

 private:
  /// Fills in the tiles of the queries; returns how many there are.
  int64_t place_tiles(HeadIndex at, Interval queries, GroupWorkspace<T>& workspace) const {
    int64_t tiles = 0;
    for (int64_t t = queries.begin; t < queries.end; t += W) {
      GroupTile<T>& tile = workspace.tiles[static_cast<std::size_t>(tiles++)];
      tile.queries = {at, t, std::min(W, queries.end - t)};
      tile.keys = mask_and_bias_.visible_block(at.b, t, tile.queries.count);
      const T* q = head_of(a_.q, s_.q, at.b, at.h) + t * s_.q.row;
      const T factor = mask_and_bias_.query_factor();
      pack_transposed<T>(tile.queries.count, s_.head_dim, {q, s_.q.row}, {tile.q, W}, W, {&factor, 0});
    }
    return tiles;
  }

  /// Takes the tiles over all keys; returns whether those lay in one span, which then is the whole.
  bool walk(int64_t tiles, GroupWorkspace<T>& workspace) const {
    const GroupTile<T>&front = workspace.tiles.front(),
          &back = workspace.tiles[static_cast<std::size_t>(tiles - 1)];
    const HeadIndex at = front.queries.at;
    const Interval seen{front.keys.begin, back.keys.end};
    const int64_t first = seen.begin / kSpan * kSpan;
    const bool one_span = seen.end <= first + kSpan;
    const auto clear = [&](auto part) {
      for (int64_t i = 0; i < tiles; ++i)
        (workspace.tiles[static_cast<std::size_t>(i)].*part).clear(s_.value_dim);
    };
    clear(one_span ? &GroupTile<T>::span : &GroupTile<T>::total);
    for (int64_t span = first; span < seen.end; span += kSpan) {
      const Interval keys = both(seen, {span, span + kSpan});
      if (!one_span) clear(&GroupTile<T>::span);
      for (int64_t block = keys.begin / kKeyBlock * kKeyBlock; block < keys.end; block += kKeyBlock) {
        const Interval here = both(keys, {block, block + kKeyBlock});
        if (mask_and_bias_.any_present(at.b, here)) take_block(at, block, here, tiles, workspace);
      }
      for (int64_t i = 0; i < tiles && !one_span; ++i) {
        const GroupTile<T>& tile = workspace.tiles[static_cast<std::size_t>(i)];
        merge_partials_tile(tile_width<T>(tile.queries), s_.value_dim, tile.span, tile.total);
      }
    }
    return one_span;
  }

  /// All tiles with the keys `here` of one block.
  void take_block(HeadIndex at, int64_t block, Interval here, int64_t tiles,
                  GroupWorkspace<T>& workspace) const {
    const int64_t kv = at.h / (s_.heads / s_.kv_heads);
    const RowMajor<const T> keys = a_.k.rows({at.b, kv}, here, s_.head_dim, workspace.keys);
    const RowMajor<const T> values = a_.v.rows({at.b, kv}, here, s_.value_dim, workspace.values);
    for (int64_t i = 0; i < tiles; ++i) {
      const GroupTile<T>& tile = workspace.tiles[static_cast<std::size_t>(i)];
      const Interval seen = both(here, tile.keys);
      if (!seen.empty()) take_tile(tile, block, seen, keys, values, here.begin, workspace);
    }
  }

  /// One tile with the keys `seen` of a block; those at hand start at key `first`.
  void take_tile(const GroupTile<T>& tile, int64_t block, Interval seen, RowMajor<const T> keys,
                 RowMajor<const T> values, int64_t first, GroupWorkspace<T>& workspace) const {
    const TileParts parts = cut_tile(mask_and_bias_, tile.queries, block, seen);
    T largest[W];
    std::copy(tile.span.largest, tile.span.largest + W, largest);
    for (const TilePart& part : parts) {
      const TileQueries queries = queries_of(tile.queries, part);
      const int64_t n = part.keys.size(), lane = part.lanes.begin, skip = part.keys.begin - first;
      T* scores = workspace.scores + (part.keys.begin - block) * W + lane;
      T before[W];
      std::copy(largest, largest + W, before);
      tile_multiply<Into::c_and_largest, false, T>(n, part.lanes.size(), s_.head_dim,
                                                   {keys.data + skip * keys.stride, keys.stride, 1},
                                                   {tile.q + lane, W}, {scores, W}, largest + lane);
      if (finish_tile(mask_and_bias_, queries, part.keys, workspace.tile_room, scores)) {
        find_largest(n, part.lanes.size(), before + lane, scores, largest + lane);
      }
    }
    online_softmax_update_tile(parts, block, s_.value_dim, largest, tile.span, workspace.scores);
    for (const TilePart& part : parts) {
      const TileQueries queries = queries_of(tile.queries, part);
      const int64_t lane = part.lanes.begin;
      T* p = workspace.scores + (part.keys.begin - block) * W + lane;
      if (o_.dropout > 0) {
        dropout_tile(mask_and_bias_, keep_, queries, part.keys, workspace.tile_room);
        each_vector<T>(queries, part.keys.size(), [&](int64_t, int64_t, int64_t at) HWY_ATTR {
          store<T>(hn::Mul(load(p + at), load(workspace.tile_room.by_key + at)), p + at);
        });
      }
      tile_multiply<Into::sum, true, T>(
          s_.value_dim, part.lanes.size(), part.keys.size(),
          {values.data + (part.keys.begin - first) * values.stride, 1, values.stride}, {p, W},
          {tile.span.o + lane, W});
    }
  }

  void write(const TileQueries& q, const Softmax<T>& result) const {
    T logsumexps[W], inverses[W];
    for (int64_t w = 0; w < tile_width<T>(q); w += lanes<T>()) {
      const Vec<T> sum = load(result.sum + w);
      store<T>(logsumexp_of(load(result.largest + w), sum), logsumexps + w);
      store<T>(inverse_of(sum), inverses + w);
    }
    T* o = head_of(a_.o, s_.o, q.at.b, q.at.h) + q.first * s_.o.row;
    pack_transposed<T>(s_.value_dim, q.count, {result.o, W}, {o, s_.o.row}, s_.value_dim, {inverses, 1});
    if (a_.logsumexp == nullptr) return;
    T* out = a_.logsumexp + (q.at.b * s_.heads + q.at.h) * s_.queries + q.first;
    std::copy(logsumexps, logsumexps + q.count, out);
  }

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const ForwardArgs<T>& a_;
  const MaskAndBias<T>& mask_and_bias_;
  Keep keep_;
};

template <class T>
void attention_of(const AttentionShape& shape, const AttentionOptions<T>& options, ForwardArgs<T> args) {
  if (shape.batch * shape.heads * shape.queries == 0) return;
  const MaskAndBias<T> mask_and_bias(shape, options);
  std::shared_ptr<Buffer> logsumexp;  // weights need it
  if (args.weights != nullptr && args.logsumexp == nullptr) {
    const int64_t count = shape.batch * shape.heads * shape.queries;
    logsumexp = Buffer::allocate(static_cast<std::size_t>(count) * sizeof(T));
    args.logsumexp = reinterpret_cast<T*>(logsumexp->data());
  }
  if (options.query_lengths == nullptr && RowForward<T>::suits(shape)) {
    RowForward<T>(shape, options, args, mask_and_bias).run();
  } else {
    TileForward<T>(shape, options, args, mask_and_bias).run();
  }
  if (args.weights != nullptr) RowWeights<T>(shape, args, mask_and_bias).run();
}

template <class S>
void attention(const AttentionShape& shape, const AttentionOptions<AttentionCompute<S>>& options,
               const AttentionForward<S>& args) {
  using T = AttentionCompute<S>;
  attention_of<T>(shape, options, ForwardArgs<T>(shape, args));
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
template void attention(const AttentionShape&, const AttentionOptions<float>&,
                        const AttentionForward<std::uint8_t>&);

}  // namespace heed::kernels
#endif
