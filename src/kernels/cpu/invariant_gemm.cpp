// The batch-invariant product, in blocks (Goto and van de Geijn 2008, "Anatomy of high-performance matrix
// multiplication"). The micro-kernel holds the sums of mr rows times nr columns in registers along kc steps
// of k, and where k is longer takes them up again from memory: their order is that of k by construction.
//
// mc rows of x stay in the second-level cache, rearranged tile by tile as [kc / 16][mr][16]: a step along k
// finds its numbers at constant distances, and 16 steps share each row's cache line. For every panel of a
// thread's columns, all tiles of the block pass over it, and fetch what follows. A single tile reads 16-bit
// panels as they are; for several, a panel is widened once. Panels of a w that is not packed are packed on
// the way, nc columns at a time. Packing for many products, and rows of packed matrices, are here too.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/invariant_gemm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <unistd.h>

#include <array>
#include <limits>
#include <span>
#include <type_traits>

#include "kernels/cpu/blocks-inl.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/micro_kernel-inl.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kBlockDepth = 512;   // kc of a panel in blocks: a multiple of every block
inline constexpr int64_t kNcBytes = 8 << 20;  // of the nc columns that are packed on the way
/// Multiplications a thread should have at least, reading a weight counted as eight of them.
inline constexpr int64_t kThreadWork = 1 << 18, kReading = 8;

/// InvariantGemm with the type and form of w.
template <class T>
struct TypedGemm : InvariantGemm {
  Strided<float> x;
  Stored<T> w;
};

/// What one task computes of a product: rows [first_row, last_row) of x, panels [first, last) of w.
struct GemmTask {
  int64_t first_row, last_row, first, last;
};

/// Bytes of the mc rearranged rows: three quarters of the second-level cache.
HWY_INLINE int64_t bytes_of_rows() { return detail::second_level_cache() / 4 * 3; }
/// kc, steps along k for which a panel takes an eighth of that cache.
HWY_INLINE int64_t most_steps() {
  return std::clamp<int64_t>(detail::second_level_cache() / 8 / (kNr * 4), 256, 1024);
}

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

/// One row block of a task over steps [from, from + depth) of k: its tiles, one behind the other in `rows`.
template <class T>
struct Block {
  const TypedGemm<T>& args;
  int64_t first_row;
  int64_t count;
  int64_t from;
  int64_t depth;
  const float* rows;
  int64_t tiles() const { return (count + kMr - 1) / kMr; }
  int64_t begin(int64_t tile) const { return count * tile / tiles(); }
  float* sums(int64_t tile, int64_t panel) const {
    return args.y + (first_row + begin(tile)) * args.ldy + panel * kNr;
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
HWY_INLINE void fetch_next(const Block<T>& block, int64_t tile, const Panels<S>& panels, MicroTile<S>& t) {
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
HWY_NOINLINE void run_aside(const Block<T>& block, const Panels<S>& panels, MicroTile<S> t,
                            MicroKernel<S> function, int64_t rows, bool finishes) {
  const TypedGemm<T>& p = block.args;
  const int64_t column = panels.first * kNr, columns = panels.count * kNr, ldy = p.ldy;
  const int64_t width = std::min(p.n - column, columns);
  float bias[kMostPanels * kNr] = {}, out[kMr * kMostPanels * kNr];
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
  if (finishes && p.epilogue.activation != Activation::none)
    activate<float>(p.epilogue.activation, out, out, rows * columns);
  for (int64_t i = 0; i < rows; ++i) std::copy(out + i * columns, out + i * columns + width, y + i * ldy);
}

template <class S, class T>
HWY_INLINE void run_tile(const Block<T>& block, int64_t tile, const Panels<S>& panels) {
  const TypedGemm<T>& p = block.args;
  const int64_t begin = block.begin(tile), rows = block.begin(tile + 1) - begin;
  const int64_t column = panels.first * kNr;
  MicroTile<S> t{block.depth, block.rows + begin * padded_depth(block.depth),
                 panels.data, panels.size,
                 nullptr,     block.sums(tile, panels.first),
                 p.ldy};
  const bool finishes = block.from + block.depth == p.k;
  t.continues = p.accumulate || block.from > 0;
  if (finishes && p.epilogue.bias != nullptr) t.bias = p.epilogue.bias + column;
  fetch_next(block, tile, panels, t);
  const auto function = micro_kernel_for<S>(rows, panels.count > 1, std::make_integer_sequence<int, kMr>());
  if (p.n - column < panels.count * kNr || (finishes && p.epilogue.activation != Activation::none)) {
    run_aside(block, panels, t, function, rows, finishes);
  } else {
    function(t);
  }
}

/// What of a panel is to be fetched before the block comes to it.
template <class T>
HWY_INLINE Fetch fetch_of(const Block<T>& block, const T* panel, int64_t from_plain) {
  constexpr int64_t kPair = 128, kSize = sizeof(T);
  const Strided<T>& plain = block.args.w.strided;
  if (panel != nullptr) {
    return {reinterpret_cast<const std::byte*>(panel), kPair, block.depth * kNr * kSize / kPair};
  }
  if (plain.row != 1 || block.depth == 0) return {};  // rows are read in the order of memory
  const T* corner = plain.data + from_plain * kNr + block.from * plain.column;
  return {reinterpret_cast<const std::byte*>(corner), plain.column * kSize, block.depth};
}

/// Workspace for plain panels of a task's columns that are packed on the way.
template <class T>
struct Strip {
  T* data = nullptr;
  bool keeps = false;   // each panel has its place; else they all have the first
  bool filled = false;  // by an earlier block
};

/// All tiles of a block over panels [first, last).
template <class T>
HWY_INLINE void run_block(const Block<T>& block, int64_t first, int64_t last, const Strip<T>& strip) {
  const TypedGemm<T>& p = block.args;
  const bool plain = p.w.panels == nullptr;
  const int64_t size = kNr * (plain ? block.depth : p.k), tiles = block.tiles();
  const int64_t most = tiles == 1 ? panels_of(static_cast<int>(block.count)) : 1;
  for (int64_t panel = first, count = 1; panel < last; panel += count) {
    count = last - panel >= most ? most : 1;
    T* const slot = strip.data + (strip.keeps ? panel - first : 0) * size;
    const T* data = plain ? slot : p.w.panels + kNr * (panel * p.k + block.from);
    if (plain && !strip.filled && block.depth > 0) {
      for (int64_t i = panel; i < panel + count; ++i) {
        const T* corner = p.w.strided.data + i * kNr * p.w.strided.row + block.from * p.w.strided.column;
        pack_panel(std::min(kNr, p.n - i * kNr), block.depth,
                   Strided<T>{corner, p.w.strided.row, p.w.strided.column}, slot + (i - panel) * size);
      }
    }
    Panels<T> some{panel, count, data, size};
    some.more = panel + count < last;
    if (some.more && tiles > 1)
      some.next = fetch_of(block, plain && !strip.filled ? nullptr : data + size, panel + 1);
    if (!std::is_same_v<T, float> && tiles > 1) {
      float* wide = scratch<2>(block.depth * kNr);
      for (int64_t i = 0; i < block.depth * kNr; i += lanes<float>())
        store<float>(widened(data + i), wide + i);
      const Panels<float> widened{panel, 1, wide, size, some.next, some.more};
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, widened);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) run_tile(block, tile, some);
    }
  }
}

/// The product of a few rows with a panel in blocks.
HWY_INLINE void run_rows(const Block<Blocks>& block, int64_t panel) {
  const TypedGemm<Blocks>& p = block.args;
  const int64_t rows = block.count, column = panel * kNr, width = std::min(kNr, p.n - column);
  float sums[kRowsAtOnce * kNr] = {};
  float* y = block.sums(0, panel);
  for (int64_t r = 0; p.accumulate && r < rows; ++r)
    std::copy(y + r * p.ldy, y + r * p.ldy + width, sums + r * kNr);
  rows_times_panel(*p.w.panels, panel, rows, p.k, block.rows, sums);
  for (int64_t r = 0; p.epilogue.bias != nullptr && r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) sums[r * kNr + i] += p.epilogue.bias[column + i];
  }
  if (p.epilogue.activation != Activation::none)
    activate<float>(p.epilogue.activation, sums, sums, rows * kNr);
  for (int64_t r = 0; r < rows; ++r) std::copy(sums + r * kNr, sums + r * kNr + width, y + r * p.ldy);
}

/// The same for a matrix in blocks: a panel is decoded once for all tiles.
HWY_INLINE void run_block(const Block<Blocks>& block, int64_t first, int64_t last, const Strip<Blocks>&) {
  const int64_t size = kNr * block.depth;
  for (int64_t panel = first; panel < last; ++panel) {
    if (block.count <= kRowsAtOnce && block.depth == block.args.k) {
      run_rows(block, panel);
      continue;
    }
    float* numbers = scratch<2>(size);
    unpack_steps(*block.args.w.panels, panel, block.from, block.depth, numbers);
    const Panels<float> one{panel, 1, numbers, size, {}, panel + 1 < last};
    for (int64_t tile = 0; tile < block.tiles(); ++tile) run_tile(block, tile, one);
  }
}

/// Steps of k that a task takes at a time.
template <class T>
HWY_INLINE int64_t part_of_depth(int64_t k, int64_t rows) {
  if (std::is_same_v<T, Blocks>) return rows <= kRowsAtOnce ? k : std::min(k, kBlockDepth);
  // Few rows stay in the cache whatever k is, and are not worth the sums' way through memory.
  return rows <= kMr ? padded_depth(k) : even_part(k, most_steps());
}

/// Whether panels are read, or packed, in the order of memory.
template <class T>
HWY_INLINE bool is_in_order(const Stored<T>& w) {
  return w.is_packed() || w.strided.row == 1;
}
HWY_INLINE bool is_in_order(const Stored<Blocks>&) { return true; }

/// Rearranges the block's rows, tile by tile.
template <class T>
HWY_INLINE float* place_block(const Block<T>& block) {
  const Strided<float>& x = block.args.x;
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
  // What lies by columns is transposed, one run of all rows at a time.
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
HWY_INLINE void run_task(const TypedGemm<T>& p, const GemmTask& task) {
  const int64_t all = task.last_row - task.first_row;
  const int64_t kc = part_of_depth<T>(p.k, all);
  const int64_t mc = std::max<int64_t>(kMr, bytes_of_rows() / 4 / std::max<int64_t>(kc, 1));
  const int64_t blocks = (all + mc - 1) / mc;
  const bool plain = !p.w.is_packed(), keeps = plain && blocks > 1;
  const int64_t panel_bytes = std::max<int64_t>(kc * kNr * static_cast<int64_t>(sizeof(T)), 1);
  const int64_t nc_panels = keeps ? std::max(kMostPanels, kNcBytes / panel_bytes) : task.last - task.first;
  for (int64_t first = task.first; first < task.last; first += nc_panels) {
    const int64_t last = std::min(first + nc_panels, task.last);
    Strip<T> strip{nullptr, keeps};
    if (plain) {
      const int64_t places = keeps ? last - first : kMostPanels;
      strip.data = reinterpret_cast<T*>(scratch<1>(places * panel_bytes / 4));
    }
    int64_t from = 0;
    do {
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t begin = task.first_row + all * b / blocks,
                      end = task.first_row + all * (b + 1) / blocks;
        Block<T> block{p,
                       begin,
                       end - begin,
                       from,
                       std::min(kc, p.k - from),
                       p.x.data + begin * p.x.row + from * p.x.column};
        if (block.count > 1 || p.x.column != 1) block.rows = place_block(block);
        strip.filled = b > 0;
        run_block(block, first, last, strip);
      }
      from += kc;
    } while (from < p.k);
  }
}

}  // namespace

/// How many threads a product is worth.
template <class T>
int64_t gemm_threads(const InvariantGemm& args) {
  const int64_t panels = (args.n + kNr - 1) / kNr;
  return std::max<int64_t>(1, (args.m + kReading) * panels * kNr * args.k / kThreadWork);
}

/// Cuts a product for a team.
template <class T>
void cut_gemm(const Stored<T>& w, int64_t team, detail::SharedGemm& shared) {
  const InvariantGemm& p = shared.args;
  const int64_t panels = (p.n + kNr - 1) / kNr, tiles = (p.m + kMr - 1) / kMr;
  // The cheapest grid of parts. An element of x that is rearranged, or of w that is read or packed, costs
  // about as much as a multiplication by a panel's row; twice that where it must be transposed.
  const int64_t placing = p.x.column == 1 ? 1 : 2;
  const int64_t packing = is_in_order(w) ? 1 : 2;
  int64_t across = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t c = 1; c <= std::min(team, panels); ++c) {
    const int64_t wide = (panels + c - 1) / c, down = std::min(team / c, tiles);
    const int64_t cost = (tiles + down - 1) / down * kMr * (wide + placing) + wide * kNr * packing;
    if (cost < least) least = cost, across = c;
  }
  int64_t down = std::max<int64_t>(1, std::min(team / across, tiles));
  // Every task rearranges its rows, and packs its columns where they are plain: the fewer it has of the
  // others, the dearer.
  int64_t finer = team > 1 ? std::clamp<int64_t>(2 * gemm_threads<T>(p) / team, 1, detail::kTasksEach) : 1;
  const auto cut = [&](int64_t& parts, int64_t length, int64_t least_length) {
    const int64_t times = std::clamp<int64_t>(length / (parts * least_length), 1, finer);
    parts *= times;
    finer /= times;
  };
  if (w.is_packed()) {
    cut(down, tiles, 8);
    cut(across, panels, tiles > 1 ? 8 : p.m > 1 ? 4 : 1);
  } else {
    cut(across, panels, 12);
    cut(down, tiles, 36);
  }
  shared.across = across;
  shared.down = down;
}

template <class T>
void run_gemm_task(const detail::SharedGemm& shared, const Stored<T>& w, int64_t task) {
  const TypedGemm<T> p{shared.args, Strided<float>(shared.args.x), w};
  const int64_t panels = (p.n + kNr - 1) / kNr, across = shared.across, down = shared.down;
  // The first panel of part `c`. A row alone reads four panels side by side, faster than one after the other.
  const auto panel = [&](int64_t c) {
    const int64_t first = panels * c / across;
    return p.m > 1 || c == across ? first : first / 4 * 4;
  };
  const int64_t c = task / down, r = task % down;
  run_task(p, GemmTask{p.m * r / down, p.m * (r + 1) / down, panel(c), panel(c + 1)});
}

template <class T>
void pack_panels(const Strided<T>& w, int64_t n, int64_t k, T* panels) {
  parallel_for((n + kNr - 1) / kNr, row_grain(kNr * k), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      pack_panel(std::min(kNr, n - i * kNr), k, Strided<T>(w.data + i * kNr * w.row, w.row, w.column),
                 panels + i * kNr * k);
    }
  });
}

template <class T>
void rows_of(const Stored<T>& w, const RowLookup& rows, float factor, float* y) {
  const int64_t k = rows.d;
  const int64_t* ids = rows.ids;
  const bool packed = w.panels != nullptr;
  const int64_t step = packed ? kNr : w.strided.column;
  parallel_for(rows.count, row_grain(k), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from =
          packed ? w.panels + ids[i] / kNr * kNr * k + ids[i] % kNr : w.strided.data + ids[i] * w.strided.row;
      float* to = y + i * k;
      if (step == 1) {
        for (int64_t l = 0; l < k; ++l) to[l] = factor * static_cast<float>(from[l]);
      } else {
        for (int64_t l = 0; l < k; ++l) to[l] = factor * static_cast<float>(from[l * step]);
      }
    }
  });
}

template <>
void rows_of(const Stored<Blocks>& w, const RowLookup& rows, float factor, float* y) {
  const int64_t step = w.panels->form()->numbers;
  parallel_for(rows.count, row_grain(rows.d * kNr), [=](int64_t begin, int64_t end) HWY_ATTR {
    float numbers[kMostNumbers * kNr];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = rows.ids[i];
      for (int64_t from = 0; from < rows.d; from += step) {
        unpack_steps(*w.panels, id / kNr, from, step, numbers);
        for (int64_t l = 0; l < step; ++l) y[i * rows.d + from + l] = factor * numbers[l * kNr + id % kNr];
      }
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
HEED_EXPORT(gemm_threads);
HEED_EXPORT(cut_gemm);
HEED_EXPORT(run_gemm_task);
HEED_EXPORT(pack_panels);
HEED_EXPORT(rows_of);

namespace {

std::int64_t told_cache() {
  constexpr std::int64_t kUsual = 1 << 20, kLeast = 128 << 10, kMost = 4 << 20;  // more is several cores'
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long told = sysconf(_SC_LEVEL2_CACHE_SIZE); told > 0)
    return std::clamp<std::int64_t>(told, kLeast, kMost);
#endif
  return kUsual;
}
// Asked for once, when the library is loaded.
const std::int64_t kSecondLevelCache = told_cache();

}  // namespace

std::int64_t detail::second_level_cache() { return kSecondLevelCache; }

bool detail::invariant_gemm_has_vectors() { return HEED_DISPATCH(has_vectors, float)(); }

namespace {

constexpr std::size_t kMostShared = 4;

/// Products that threads share at once.
struct SharedGemms {
  std::array<detail::SharedGemm, kMostShared> products;
  std::size_t count = 0;
  std::int64_t tasks = 0;

  /// Tasks [begin, end).
  void operator()(std::int64_t, std::int64_t begin, std::int64_t end) const {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < count && before < end; before += products[i++].tasks()) {
      const detail::SharedGemm& one = products[i];
      const std::int64_t last = std::min(end - before, one.tasks());
      for (std::int64_t task = std::max(begin - before, std::int64_t{0}); task < last; ++task) {
        if (one.is_rounded()) {
          detail::run_int8_task(one, task);
        } else {
          dispatch_stored(one.args.w, [&]<class T>(const Stored<T>& w) {
            HEED_DISPATCH(run_gemm_task, T)(one, w, task);
          });
        }
      }
    }
  }
};

}  // namespace

void detail::invariant_gemms(std::span<const InvariantGemm> all, ByteProducts products,
                             const ComputeRows* rows) {
  if (all.size() > kMostShared) {
    invariant_gemms(all.first(kMostShared), products, rows);
    return invariant_gemms(all.subspan(kMostShared), products);
  }
  const auto is_int8 = [](const InvariantGemm& p) {
    return p.int8 && p.w.packed != nullptr && takes_int8(*p.w.packed);
  };
  std::int64_t useful = 0;
  for (const InvariantGemm& p : all) {
    if (p.m == 0 || p.n == 0) continue;
    useful += is_int8(p) ? int8_threads(p) : HEED_DISPATCH(gemm_threads, float)(p);
  }
  const std::int64_t team = team_size(useful, 1);
  SharedGemms shared;
  for (const InvariantGemm& p : all) {
    if (p.m == 0 || p.n == 0) continue;
    SharedGemm& one = shared.products[shared.count];
    one.args = p;
    if (is_int8(p)) {
      one.products = products;
      one.compute_rows = std::exchange(rows, nullptr);
      share_int8(one, team, shared.count, shared.count == 0 ? nullptr : &one - 1);
    } else {
      if (rows != nullptr) parallel_for(p.m, 1 + (1 << 14) / (p.k + 1), *std::exchange(rows, nullptr));
      dispatch_stored(p.w, [&]<class T>(const Stored<T>& w) { HEED_DISPATCH(cut_gemm, T)(w, team, one); });
    }
    shared.tasks += one.tasks();
    ++shared.count;
  }
  parallel_for_team(team, shared.tasks, 1, shared);
}

void invariant_gemms(std::span<const InvariantGemm> all, const ComputeRows* rows) {
  detail::invariant_gemms(all, detail::byte_products(), rows);
}

bool takes_chain(const PackedMatrix& first, const PackedMatrix& second, std::int64_t m) {
  constexpr std::int64_t kFewest = 16;  // fewer are faster one after the other, and take little memory
  return m >= kFewest && detail::takes_int8(first) && detail::takes_int8(second);
}

void invariant_gemm_chain(const InvariantGemm& first, const InvariantGemm& second, const ComputeRows* rows) {
  if (second.n > 0) detail::int8_chain(first, second, detail::byte_products(), rows);
}

std::shared_ptr<const PackedMatrix> pack(const StridedMatrix& w, std::int64_t n, std::int64_t k, Kept kept) {
  auto packed = std::make_shared<PackedMatrix>(w.dtype, n, k, kept);
  dispatch_stored({w}, [&]<class T>(const Stored<T>& stored) {
    if constexpr (!std::is_same_v<T, Blocks>)
      HEED_DISPATCH(pack_panels, T)(stored.strided, n, k, packed->panels<T>());
  });
  return packed;
}

void lookup_rows(const StoredMatrix& w, const RowLookup& rows, float factor, float* y) {
  dispatch_stored(w, [&]<class T>(const Stored<T>& stored) {
    HEED_DISPATCH(rows_of, T)(stored, rows, factor, y);
  });
}

}  // namespace heed::kernels
#endif
