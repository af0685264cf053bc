// Products with packed weights. A tile holds the sums of a few rows times one or several panels in registers
// along k, and where k is long takes them up again from memory: their order is that of k by construction.
//
// Rows are taken in blocks that stay in the second-level cache, rearranged tile by tile as
// [k / 16][rows][16]: a step along k finds its numbers at constant distances, and 16 steps share each row's
// cache line. For every panel of a thread's columns, all tiles of the block pass over it. A single tile reads
// 16-bit panels as they are; for several, a panel is widened once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <type_traits>

#include "kernels/cpu/packed_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kBlockBytes = 768 << 10;  // of rearranged rows: part of the second-level cache
inline constexpr int64_t kMostDepth = 1024;  // steps along k that a panel and a block share the cache for
/// Multiplications a thread should have at least, reading a weight counted as eight of them.
inline constexpr int64_t kThreadWork = 1 << 19, kReading = 8;

/// A thread's part of a product: rows [first_row, last_row) of x, panels [first, last) of w.
struct Part {
  int64_t first_row, last_row, first, last;
};

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
  bool last() const { return from + depth == args.k; }
};

/// Some panels over a block's steps of k, and what comes behind them in memory.
template <class S>
struct Panels {
  int64_t first;
  int64_t count;
  const S* data;
  int64_t size;           // distance of one panel from the next
  const std::byte* next;  // what to fetch meanwhile, or null
  int64_t next_bytes;
};

template <class S, class T>
HWY_INLINE void run_tile(const Block<T>& block, int64_t tile, const Panels<S>& panels) {
  const OrderedProduct<T>& p = block.args;
  const int64_t begin = block.begin(tile), rows = block.begin(tile + 1) - begin;
  const int64_t column = panels.first * kPanel, columns = panels.count * kPanel;
  const int64_t width = std::min(p.n - column, columns), ldy = p.ldy;
  float* y = p.y + (block.first_row + begin) * ldy + column;
  float bias[kMostPanels * kPanel] = {}, out[kTileRows * kMostPanels * kPanel];
  const bool whole = width == columns, activate = block.last() && p.activation != nullptr;
  const bool direct = whole && !activate;
  Tile<S> t{block.depth,
            block.rows + begin * padded_depth(block.depth),
            panels.data,
            panels.size,
            nullptr,
            direct ? y : out,
            direct ? ldy : columns};
  t.continues = block.from > 0;
  if (p.bias != nullptr && block.last()) {
    if (!whole) std::copy(p.bias + column, p.bias + column + width, bias);
    t.bias = whole ? p.bias + column : bias;
  }
  if (panels.next != nullptr) {
    const int64_t runs = block.tiles() * std::max<int64_t>(block.depth / kRun, 1);
    t.next_lines = (panels.next_bytes / 64 + runs - 1) / runs;
    const int64_t bytes = runs / block.tiles() * t.next_lines * 64;
    t.next = panels.next + tile * bytes;
    if ((tile + 1) * bytes > panels.next_bytes) t.next_lines = 0;
  }
  if (!direct && t.continues) {
    for (int64_t i = 0; i < rows; ++i) std::copy(y + i * ldy, y + i * ldy + width, out + i * columns);
  }
  tile_function<S>(rows, panels.count > 1, std::make_integer_sequence<int, kTileRows>())(t);
  if (direct) return;
  if (activate) p.activation(out, out, rows * columns);
  for (int64_t i = 0; i < rows; ++i) std::copy(out + i * columns, out + i * columns + width, y + i * ldy);
}

/// All tiles of a block over panels [first, last).
template <class T>
HWY_INLINE void run_block(const Block<T>& block, int64_t first, int64_t last) {
  const OrderedProduct<T>& p = block.args;
  const int64_t tiles = block.tiles(), size = kPanel * block.depth;
  const int64_t most = tiles == 1 && p.packed != nullptr ? panels_of(static_cast<int>(block.count)) : 1;
  for (int64_t panel = first, count = 1; panel < last; panel += count) {
    count = last - panel >= most ? most : 1;
    Panels<T> panels{panel, count, p.packed + kPanel * (panel * p.k + block.from), kPanel * p.k, nullptr, 0};
    if (p.packed == nullptr) {
      T* packed = reinterpret_cast<T*>(scratch<1>(size));
      const T* corner = p.plain.data + panel * kPanel * p.plain.row + block.from * p.plain.column;
      pack_panel(std::min(kPanel, p.n - panel * kPanel), block.depth,
                 Plain<const T>{corner, p.plain.row, p.plain.column}, packed);
      panels.data = packed;
    } else if (panel + count < last && tiles > 1) {
      panels.next = reinterpret_cast<const std::byte*>(panels.data + panels.size);
      panels.next_bytes = size * static_cast<int64_t>(sizeof(T));
    }
    if (!std::is_same_v<T, float> && tiles > 1) {
      float* wide = scratch<2>(size);
      for (int64_t i = 0; i < size; i += lanes<float>()) store<float>(widened(panels.data + i), wide + i);
      const Panels<float> widened{panel, 1, wide, size, panels.next, panels.next_bytes};
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, widened);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, panels);
    }
  }
}

/// Rearranges the block's rows, tile by tile.
template <class T>
HWY_INLINE float* place_block(const Block<T>& block) {
  const OrderedProduct<T>& p = block.args;
  const int64_t padded = padded_depth(block.depth);
  float* rows = scratch<0>(block.count * padded);
  for (int64_t tile = 0; tile < block.tiles(); ++tile) {
    const int64_t begin = block.begin(tile), count = block.begin(tile + 1) - begin;
    for (int64_t r = 0; r < count; ++r) {
      const float* x = p.x + (block.first_row + begin + r) * p.ldx + block.from;
      place_row(x, block.depth, r, count, rows + begin * padded);
    }
  }
  return rows;
}

template <class T>
HWY_INLINE void run_part(const OrderedProduct<T>& p, const Part& part) {
  const int64_t all = part.last_row - part.first_row;
  // Few rows stay in the cache whatever k is, and are not worth the sums' way through memory.
  const int64_t cuts = all <= kTileRows ? 1 : (p.k + kMostDepth - 1) / kMostDepth;
  const int64_t step = padded_depth((p.k + cuts - 1) / std::max<int64_t>(cuts, 1));
  const int64_t most = std::max<int64_t>(kTileRows, kBlockBytes / 4 / std::max<int64_t>(step, 1));
  const int64_t blocks = (all + most - 1) / most;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = part.first_row + all * b / blocks, last = part.first_row + all * (b + 1) / blocks;
    int64_t from = 0;
    do {
      Block<T> block{p, first, last - first, from, std::min(step, p.k - from), p.x + first * p.ldx + from};
      if (block.count > 1) block.rows = place_block(block);
      run_block(block, part.first, part.last);
      from += step;
    } while (from < p.k);
  }
}

}  // namespace

template <class T>
void ordered_product(const OrderedProduct<T>& p) {
  const int64_t panels = (p.n + kPanel - 1) / kPanel, tiles = (p.m + kTileRows - 1) / kTileRows;
  const int64_t useful = std::max<int64_t>(1, (p.m + kReading) * panels * kPanel * p.k / kThreadWork);
  const int64_t team = std::min<int64_t>(threads(), useful);
  // Cut columns first, so that weights are read once; rows where there are too few columns.
  int64_t across = 1, best = tiles * panels;
  for (int64_t c = 1; c <= std::min(team, panels); ++c) {
    const int64_t down = std::min(team / c, tiles);
    const int64_t longest = (panels + c - 1) / c * ((tiles + down - 1) / down);
    if (longest <= best) best = longest, across = c;
  }
  const int64_t down = std::max<int64_t>(1, std::min(team / across, tiles));
  parallel_for(across * down, 1, [&, down, across, panels](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i / down, r = i % down;
      run_part(p, Part{p.m * r / down, p.m * (r + 1) / down, panels * c / across, panels * (c + 1) / across});
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

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(ordered_product);
HEED_EXPORT(pack);
HEED_EXPORT(unpack);
HEED_EXPORT(packed_rows);

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
