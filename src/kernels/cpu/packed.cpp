// Products with packed weights. A tile holds the sums of a few rows times one or several panels in registers
// along k, and where k is long takes them up again from memory: their order is that of k by construction.
//
// Rows are taken in blocks that stay in the second-level cache, rearranged tile by tile as
// [k / 16][rows][16]: a step along k finds its numbers at constant distances, and 16 steps share each row's
// cache line. For every panel of a thread's columns, all tiles of the block pass over it, and fetch what
// follows. A single tile reads 16-bit panels as they are; for several, a panel is widened once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <type_traits>

#include "kernels/cpu/packed_tile-inl.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kBlockBytes = 768 << 10;  // of rearranged rows: part of the second-level cache
inline constexpr int64_t kMostDepth = 1024;  // steps along k that a panel and a block share that cache for
inline constexpr int64_t kStripBytes = 8 << 20;  // of panels that are packed on the way
/// Multiplications a thread should have at least, reading a weight counted as eight of them.
inline constexpr int64_t kThreadWork = 1 << 18, kReading = 8;

inline constexpr int64_t kManyTiles = 16;  // a thread's, from where on rows are cut rather than columns
inline constexpr int64_t kPartsEach = 4;   // for a thread, so that one that is held up delays the others less

/// A part of a product: rows [first_row, last_row) of x, panels [first, last) of w.
struct Part {
  int64_t first_row, last_row, first, last;
};

/// The length of equal parts of k, none above `most`, in whole runs.
HWY_INLINE int64_t even_part(int64_t k, int64_t most) {
  const int64_t parts = std::max<int64_t>(1, (k + most - 1) / most);
  return padded_depth((k + parts - 1) / parts);
}

/// Bytes that a thread keeps for its next product.
template <int Slot>
HWY_INLINE float* scratch(int64_t count) {
  thread_local std::vector<float> kept;
  constexpr int64_t kAlign = 16;
  if (static_cast<int64_t>(kept.size()) < count + kAlign)
    kept.resize(static_cast<std::size_t>(count + kAlign));
  const auto address = reinterpret_cast<std::uintptr_t>(kept.data());
  return kept.data() + (64 - address % 64) % 64 / sizeof(float);
}

/// Row r of `count` as a tile's: [k / 16][count][16].
HWY_INLINE void place_row(const float* x, int64_t k, int64_t r, int64_t count, float* tile_rows) {
  float* to = tile_rows + r * kRun;
  int64_t l = 0;
  for (; l + kRun <= k; l += kRun, to += count * kRun) {
    for (int64_t i = 0; i < kRun; i += lanes<float>()) store<float>(load(x + l + i), to + i);
  }
  if (l < k) std::memcpy(to, x + l, static_cast<std::size_t>(k - l) * sizeof(float));
}

/// Packs columns [0, width) of one panel, width <= 32; the rest become zero.
template <class T>
HWY_INLINE void pack_panel(int64_t width, int64_t k, Plain<const T> w, T* panel) {
  if constexpr (std::is_same_v<T, float>) {
    if (w.row != 1) return pack_transposed<float>(width, k, {w.data, w.row}, {panel, kPanel}, kPanel);
    if (width == kPanel) {
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t j = 0; j < kPanel; j += lanes<float>())
          store<float>(load(w.data + l * w.column + j), panel + l * kPanel + j);
      }
      return;
    }
  }
  if (width < kPanel) std::fill(panel, panel + k * kPanel, T());
  if (w.row == 1) {
    for (int64_t l = 0; l < k; ++l)
      std::copy(w.data + l * w.column, w.data + l * w.column + width, panel + l * kPanel);
    return;
  }
  for (int64_t l = 0; l < k; l += kRun) {
    const int64_t depth = std::min(kRun, k - l);
    for (int64_t j = 0; j < width; ++j) {
      const T* from = w.data + j * w.row + l * w.column;
      T* to = panel + l * kPanel + j;
      for (int64_t r = 0; r < depth; ++r) to[r * kPanel] = from[r * w.column];
    }
  }
}

/// One row block of a part over steps [from, from + depth) of k: its tiles, one behind the other in `rows`.
template <class T>
struct Block {
  const OrderedProduct<T>& args;
  int64_t first_row;
  int64_t count;
  int64_t from;
  int64_t depth;
  const float* rows;
  int64_t tiles() const { return (count + kTileRows - 1) / kTileRows; }
  int64_t begin(int64_t tile) const { return count * tile / tiles(); }
  float* sums(int64_t tile, int64_t panel) const {
    return args.y + (first_row + begin(tile)) * args.ldy + panel * kPanel;
  }
};

/// Lines of memory to fetch: `count` pairs of cache lines, `step` bytes apart.
struct Fetch {
  const std::byte* data = nullptr;
  int64_t step = 0;
  int64_t count = 0;
};

/// Some panels over a block's steps of k, and what will be read after them.
template <class S>
struct Panels {
  int64_t first;
  int64_t count;
  const S* data;
  int64_t size;  // distance of one panel from the next
  Fetch next = {};
  bool more = false;  // there is another panel behind these
};

/// Has a tile fetch what the next ones will need: its share of the next panel, and where the next sums go.
template <class S, class T>
HWY_INLINE void fetch_next(const Block<T>& block, int64_t tile, const Panels<S>& panels, Tile<S>& t) {
  const int64_t tiles = block.tiles(), runs = std::max<int64_t>(block.depth / kRun, 1);
  const Fetch& next = panels.next;
  t.next_count = (next.count + tiles * runs - 1) / (tiles * runs);
  t.next_step = next.step;
  t.next = next.data + tile * runs * t.next_count * next.step;
  if (tile * runs * t.next_count >= next.count) t.next_count = 0;
  const bool last = tile + 1 == tiles;
  if (last && !panels.more) return;
  const int64_t follows = last ? 0 : tile + 1;
  t.next_y = block.sums(follows, panels.first + (last ? panels.count : 0));
  t.next_ldy = block.args.ldy;
  t.next_rows = block.begin(follows + 1) - block.begin(follows);
}

/// The rest of a tile whose sums do not go straight to y: for a panel that is not whole, or an activation.
template <class S, class T>
HWY_NOINLINE void run_aside(const Block<T>& block, const Panels<S>& panels, Tile<S> t,
                            TileFunction<S> function, int64_t rows, bool finishes) {
  const OrderedProduct<T>& p = block.args;
  const int64_t column = panels.first * kPanel, columns = panels.count * kPanel, ldy = p.ldy;
  const int64_t width = std::min(p.n - column, columns);
  float bias[kMostPanels * kPanel] = {}, out[kTileRows * kMostPanels * kPanel];
  float* y = t.y;
  if (t.continues) {
    for (int64_t i = 0; i < rows; ++i) std::copy(y + i * ldy, y + i * ldy + width, out + i * columns);
  }
  if (t.bias != nullptr) {
    std::copy(t.bias, t.bias + width, bias);
    t.bias = bias;
  }
  t.y = out;
  t.ldy = columns;
  function(t);
  if (finishes && p.activation != nullptr) p.activation(out, out, rows * columns);
  for (int64_t i = 0; i < rows; ++i) std::copy(out + i * columns, out + i * columns + width, y + i * ldy);
}

template <class S, class T>
HWY_INLINE void run_tile(const Block<T>& block, int64_t tile, const Panels<S>& panels) {
  const OrderedProduct<T>& p = block.args;
  const int64_t begin = block.begin(tile), rows = block.begin(tile + 1) - begin;
  const int64_t column = panels.first * kPanel;
  Tile<S> t{block.depth, block.rows + begin * padded_depth(block.depth),
            panels.data, panels.size,
            nullptr,     block.sums(tile, panels.first),
            p.ldy};
  const bool finishes = block.from + block.depth == p.k;
  t.continues = p.accumulate || block.from > 0;
  if (finishes && p.bias != nullptr) t.bias = p.bias + column;
  fetch_next(block, tile, panels, t);
  const auto function =
      tile_function<S>(rows, panels.count > 1, std::make_integer_sequence<int, kTileRows>());
  if (p.n - column < panels.count * kPanel || (finishes && p.activation != nullptr)) {
    run_aside(block, panels, t, function, rows, finishes);
  } else {
    function(t);
  }
}

/// What of a panel is to be fetched before the block comes to it.
template <class T>
HWY_INLINE Fetch fetch_of(const Block<T>& block, const T* panel, int64_t from_plain) {
  constexpr int64_t kPair = 128, kSize = sizeof(T);
  const Plain<const T>& plain = block.args.plain;
  if (panel != nullptr) {
    return {reinterpret_cast<const std::byte*>(panel), kPair, block.depth * kPanel * kSize / kPair};
  }
  if (plain.row != 1) return {};  // rows are read in the order of memory
  const T* corner = plain.data + from_plain * kPanel + block.from * plain.column;
  return {reinterpret_cast<const std::byte*>(corner), plain.column * kSize, block.depth};
}

/// Room for plain panels of a part's columns that are packed on the way.
template <class T>
struct Strip {
  T* data = nullptr;
  bool keeps = false;   // each panel has its place; else they all have the first
  bool filled = false;  // by an earlier block
};

/// All tiles of a block over panels [first, last).
template <class T>
HWY_INLINE void run_block(const Block<T>& block, int64_t first, int64_t last, const Strip<T>& strip) {
  const OrderedProduct<T>& p = block.args;
  const bool plain = p.packed == nullptr;
  const int64_t size = kPanel * (plain ? block.depth : p.k), tiles = block.tiles();
  const int64_t most = tiles == 1 ? panels_of(static_cast<int>(block.count)) : 1;
  for (int64_t panel = first, count = 1; panel < last; panel += count) {
    count = last - panel >= most ? most : 1;
    T* const slot = strip.data + (strip.keeps ? panel - first : 0) * size;
    const T* data = plain ? slot : p.packed + kPanel * (panel * p.k + block.from);
    if (plain && !strip.filled) {
      for (int64_t i = panel; i < panel + count; ++i) {
        const T* corner = p.plain.data + i * kPanel * p.plain.row + block.from * p.plain.column;
        pack_panel(std::min(kPanel, p.n - i * kPanel), block.depth,
                   Plain<const T>{corner, p.plain.row, p.plain.column}, slot + (i - panel) * size);
      }
    }
    Panels<T> some{panel, count, data, size};
    some.more = panel + count < last;
    if (some.more && tiles > 1)
      some.next = fetch_of(block, plain && !strip.filled ? nullptr : data + size, panel + 1);
    if (!std::is_same_v<T, float> && tiles > 1) {
      float* wide = scratch<2>(block.depth * kPanel);
      for (int64_t i = 0; i < block.depth * kPanel; i += lanes<float>())
        store<float>(widened(data + i), wide + i);
      const Panels<float> widened{panel, 1, wide, size, some.next, some.more};
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, widened);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, some);
    }
  }
}

/// Rearranges the block's rows, tile by tile.
template <class T>
HWY_INLINE float* place_block(const Block<T>& block) {
  const Plain<const float>& x = block.args.x;
  const float* corner = x.data + block.first_row * x.row + block.from * x.column;
  const int64_t depth = block.depth, padded = padded_depth(depth);
  float* rows = scratch<0>(block.count * padded);
  if (x.column == 1) {
    for (int64_t tile = 0; tile < block.tiles(); ++tile) {
      const int64_t begin = block.begin(tile), count = block.begin(tile + 1) - begin;
      for (int64_t r = 0; r < count; ++r)
        place_row(corner + (begin + r) * x.row, depth, r, count, rows + begin * padded);
    }
    return rows;
  }
  // What lies by columns is turned, one run of all rows at a time.
  float* run = scratch<3>(block.count * kRun);
  for (int64_t l = 0; l < depth; l += kRun) {
    pack_transposed<float>(std::min(kRun, depth - l), block.count, {corner + l * x.column, x.column},
                           {run, kRun}, kRun);
    for (int64_t tile = 0; tile < block.tiles(); ++tile) {
      const int64_t begin = block.begin(tile), count = block.begin(tile + 1) - begin;
      float* to = rows + begin * padded + l * count;
      for (int64_t i = 0; i < count * kRun; i += lanes<float>())
        store<float>(load(run + begin * kRun + i), to + i);
    }
  }
  return rows;
}

template <class T>
HWY_INLINE void run_part(const OrderedProduct<T>& p, const Part& part) {
  const int64_t all = part.last_row - part.first_row;
  // Few rows stay in the cache whatever k is, and are not worth the sums' way through memory.
  const int64_t step = all <= kTileRows ? padded_depth(p.k) : even_part(p.k, kMostDepth);
  const int64_t most = std::max<int64_t>(kTileRows, kBlockBytes / 4 / std::max<int64_t>(step, 1));
  const int64_t blocks = (all + most - 1) / most;
  const bool plain = p.packed == nullptr, keeps = plain && blocks > 1;
  const int64_t panel_bytes = std::max<int64_t>(step * kPanel * static_cast<int64_t>(sizeof(T)), 1);
  const int64_t wide = keeps ? std::max(kMostPanels, kStripBytes / panel_bytes) : part.last - part.first;
  for (int64_t first = part.first; first < part.last; first += wide) {
    const int64_t last = std::min(first + wide, part.last);
    Strip<T> strip{nullptr, keeps};
    if (plain) {
      const int64_t places = keeps ? last - first : kMostPanels;
      strip.data = reinterpret_cast<T*>(scratch<1>(places * panel_bytes / 4));
    }
    int64_t from = 0;
    do {
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t begin = part.first_row + all * b / blocks,
                      end = part.first_row + all * (b + 1) / blocks;
        Block<T> block{p,
                       begin,
                       end - begin,
                       from,
                       std::min(step, p.k - from),
                       p.x.data + begin * p.x.row + from * p.x.column};
        if (block.count > 1 || p.x.column != 1) block.rows = place_block(block);
        strip.filled = b > 0;
        run_block(block, first, last, strip);
      }
      from += step;
    } while (from < p.k);
  }
}

}  // namespace

template <class T>
void ordered_product(const OrderedProduct<T>& p) {
  const int64_t panels = (p.n + kPanel - 1) / kPanel, tiles = (p.m + kTileRows - 1) / kTileRows;
  const int64_t useful = std::max<int64_t>(1, (p.m + kReading) * panels * kPanel * p.k / kThreadWork);
  const int64_t team = team_size(useful, 1);
  // Cut columns rather than rows, so that weights are read and packed once; but many rows are rearranged
  // once.
  const int64_t turning_rows = p.x.column == 1 ? p.m : 2 * p.m;
  const int64_t packing = p.packed != nullptr ? 0 : p.plain.row == 1 ? p.n : 2 * p.n;
  const bool rows_first = tiles >= kManyTiles * team && packing < turning_rows;
  int64_t across = 1, best = tiles * panels;
  for (int64_t c = 1; c <= std::min(team, panels); ++c) {
    const int64_t down = std::min(team / c, tiles);
    const int64_t longest = (panels + c - 1) / c * ((tiles + down - 1) / down);
    if (rows_first ? longest < best : longest <= best) best = longest, across = c;
  }
  int64_t down = std::max<int64_t>(1, std::min(team / across, tiles));
  // Every part rearranges its rows, and packs its columns where they are plain: the fewer it has of the
  // others, the dearer.
  int64_t finer = team > 1 ? std::min(kPartsEach, 2 * useful / team) : 1;
  const auto cut = [&](int64_t& parts, int64_t length, int64_t least) {
    const int64_t times = std::clamp<int64_t>(length / (parts * least), 1, finer);
    parts *= times;
    finer /= times;
  };
  if (p.packed != nullptr) {
    cut(down, tiles, 8);
    cut(across, panels, tiles > 1 ? 8 : p.m > 1 ? 4 : 1);
  } else {
    cut(across, panels, 12);
    cut(down, tiles, 36);
  }
  parallel_for_team(
      team, across * down, 1, [&, down, across, panels](int64_t, int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = i / down, r = i % down;
          run_part(
              p, Part{p.m * r / down, p.m * (r + 1) / down, panels * c / across, panels * (c + 1) / across});
        }
      });
}

template <class T>
void pack(Plain<const T> w, int64_t n, int64_t k, T* packed) {
  parallel_for((n + kPanel - 1) / kPanel, row_grain(kPanel * k), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const Plain<const T> part{w.data + i * kPanel * w.row, w.row, w.column};
      pack_panel(std::min(kPanel, n - i * kPanel), k, part, packed + i * kPanel * k);
    }
  });
}

template <class T>
void unpack(int64_t n, int64_t k, const T* packed, Plain<T> w) {
  parallel_for((n + kPanel - 1) / kPanel, row_grain(kPanel * k), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t width = std::min(kPanel, n - i * kPanel);
      for (int64_t l = 0; l < k; ++l) {
        const T* from = packed + (i * k + l) * kPanel;
        T* to = w.data + i * kPanel * w.row + l * w.column;
        for (int64_t j = 0; j < width; ++j) to[j * w.row] = from[j];
      }
    }
  });
}

template <class T>
void packed_rows(int64_t k, const T* packed, const int64_t* ids, int64_t count, float factor, float* y) {
  parallel_for(count, row_grain(k), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = packed + ids[i] / kPanel * kPanel * k + ids[i] % kPanel;
      for (int64_t l = 0; l < k; ++l) y[i * k + l] = factor * static_cast<float>(from[l * kPanel]);
    }
  });
}

template <class T>
bool has_vectors() {
  return lanes<T>() > 1;
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(has_vectors);
HEED_EXPORT(ordered_product);
HEED_EXPORT(pack);
HEED_EXPORT(unpack);
HEED_EXPORT(packed_rows);

bool ordered_product_has_vectors() { return HEED_DISPATCH(has_vectors, float)(); }
template <class T>
void ordered_product(const OrderedProduct<T>& args) {
  if (args.m == 0 || args.n == 0) return;
  HEED_DISPATCH(ordered_product, T)(args);
}
template <class T>
void pack(Plain<const T> w, std::int64_t n, std::int64_t k, T* packed) {
  HEED_DISPATCH(pack, T)(w, n, k, packed);
}
template <class T>
void unpack(std::int64_t n, std::int64_t k, const T* packed, Plain<T> w) {
  HEED_DISPATCH(unpack, T)(n, k, packed, w);
}
template <class T>
void packed_rows(std::int64_t k, const T* packed, const std::int64_t* ids, std::int64_t count, float factor,
                 float* y) {
  HEED_DISPATCH(packed_rows, T)(k, packed, ids, count, factor, y);
}

#define HEED_INSTANTIATE(T)                                             \
  template void ordered_product(const OrderedProduct<T>&);              \
  template void pack(Plain<const T>, std::int64_t, std::int64_t, T*);   \
  template void unpack(std::int64_t, std::int64_t, const T*, Plain<T>); \
  template void packed_rows(std::int64_t, const T*, const std::int64_t*, std::int64_t, float, float*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(bfloat16)
HEED_INSTANTIATE(float16)

}  // namespace heed::kernels
#endif
