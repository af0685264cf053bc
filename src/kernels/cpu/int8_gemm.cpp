// Products of rows rounded to int8 with matrices in blocks (kernels/cpu/block_panels.h): sums of integers,
// which are exact, within a group of w and at most 128 steps; then one multiplication by both scales for each
// group, in the order of k. So a row has the same bits whatever its neighbors, the threads, the way the work
// is cut and the instruction set.
//
// A panel's codes become bytes once for all rows of x and a part of k, four steps of a row of w side by
// side, and stay in the first-level cache while the tiles of x pass over them. A few rows take them out of
// the panel in registers. VNNI multiplies and adds four bytes in one instruction. Elsewhere maddubs makes
// sums of two products in 16 bits, which take as many more as the codes leave room for. With codes of 8 bits
// there is none for two, so that pairs of x are opposed first (kernels/cpu/opposed-inl.h); of few rows, for
// which that takes too long, the signs of w move to x. These products, and those of AVX2, which has too few
// registers for the sums of a tile, take one row after the other.
//
// AMX's tiles take the same bytes, as a row of their second operand is four steps of 16 columns. A tile of x
// has up to 16 rows of a group's steps, at most 64: of groups of 32, half of what it has room for, since the
// sums must leave the registers before the next group. An instruction takes a cycle for each row, whatever
// the steps: by Intel's numbers that is 8 times as fast as VNNI with 64 steps and 4 times with 32. Then
// scaling the sums takes as long as making them. So x lies in chunks of 64 steps where groups are as long,
// the bytes of w are signed, such that no sum lacks anything, and the sums of a group are scaled while the
// tiles multiply the next. So fast, rows wait for memory, unless a task's stay in the second-level cache.
//
// What only a second product reads is rounded by the task that computes it, some panels at a time: as many as
// have a scale together.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/int8_gemm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <deque>
#include <optional>

#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/int8_tile-inl.h"
#include "kernels/cpu/rounded_rows-inl.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

/// How many rows are worth it to multiply one after the other: the versions of a panel take time.
inline constexpr int64_t kFewestRowsAlone = 16;
/// Rows of a tile then.
inline constexpr int64_t kRowsOfTile = 8;
#if HEED_TILES
inline constexpr int64_t kMostRows = detail::kTileRows;
#else
inline constexpr int64_t kMostRows = std::max<int64_t>(kInt8Rows<kFours>, kRowsOfTile);
#endif

HWY_INLINE void copy_columns(const float* from, int64_t count, float* to) {
  if (count < kNr) return static_cast<void>(std::copy(from, from + count, to));
  HWY_UNROLL(8)
  for (int64_t j = 0; j < kNr; j += lanes<float>()) store<float>(load(from + j), to + j);
}

/// Where a task's sums stay: in y, or, where they are only rounded, in memory of its own for a few panels.
struct TaskSums {
  float* y;
  int64_t ldy;
  int64_t first_row = 0, first_panel = 0;

  HWY_INLINE float* at(int64_t row, int64_t panel) const {
    return y + (row - first_row) * ldy + (panel - first_panel) * kNr;
  }
};

/// What the sums of a tile with a panel begin with: zeros, or those of y, which are in `sums` where the panel
/// is not whole.
HWY_INLINE void take_sums(const SharedGemm& p, const TaskSums& task, int64_t first, int64_t rows,
                          int64_t panel, bool continues, float* sums, Int8Tile& t) {
  static constexpr float kZeros[kNr] = {};
  const int64_t width = std::min(kNr, p.args.n - panel * kNr);
  t.before = task.at(first, panel);
  t.ld_before = task.ldy;
  if (!continues) {
    t.before = kZeros;
    t.ld_before = 0;
  } else if (width < kNr) {
    for (int64_t r = 0; r < rows; ++r) copy_columns(t.before + r * t.ld_before, width, sums + r * kNr);
    t.before = sums;
    t.ld_before = kNr;
  }
}
/// Stores the sums after a part of k.
void give_sums(const SharedGemm& p, const TaskSums& task, int64_t first, int64_t rows, int64_t panel,
               bool finishes, float* sums) {
  const int64_t column = panel * kNr, width = std::min(kNr, p.args.n - column);
  const Epilogue& epilogue = p.args.epilogue;
  if (finishes && epilogue.bias != nullptr) {
    float bias[kNr] = {};
    copy_columns(epilogue.bias + column, width, bias);
    for (int64_t at = 0; at < rows * kNr; at += lanes<float>())
      store<float>(hn::Add(load(sums + at), load(bias + at % kNr)), sums + at);
  }
  if (finishes && epilogue.activation != Activation::none)
    activate<float>(epilogue.activation, sums, sums, rows * kNr);
  float* y = task.at(first, panel);
  for (int64_t r = 0; r < rows; ++r) copy_columns(sums + r * kNr, width, y + r * task.ldy);
}

/// All rows, which are few, with a panel.
[[maybe_unused]] void run_few_rows(const SharedGemm& p, int64_t panel, Int8Tile& t) {
  const TaskSums task{p.args.y, p.args.ldy};
  const int64_t rows = p.args.m;
  take_sums(p, task, 0, rows, panel, p.args.accumulate, t.y, t);
#if HEED_BYTES
  with_room(p.form, p.products, [&]<int Room>(std::integral_constant<int, Room>) HWY_ATTR {
    with_codes(p.form, [&]<class C>(C) HWY_ATTR {
      // Codes have one room, but those of a table.
      if constexpr (Room <= 0 || C::kReading == Reading::table ||
                    Room == room_of((1 << (C::kLow + C::kHigh)) - 1)) {
        run_int8_rows_of<C, Room>(rows, p.form, p.panels + panel * p.panel_bytes, p.args.k, t,
                                  std::make_integer_sequence<int, kInt8RowsAtOnce<Room>>());
      }
    });
  });
#endif
  give_sums(p, task, 0, rows, panel, true, t.y);
}

}  // namespace

template <class T>
std::int32_t factor_of(const SharedGemm& p) {
  std::int32_t factor = p.center - p.form.byte_center();
  with_room(p.form, p.products, [&]<int Room>(std::integral_constant<int, Room>) {
    factor += is_signed(Room) && !p.opposed ? 128 : 0;
  });
  return factor;
}

/// Whether rows of x are multiplied one after the other, and whether they are opposed. With wide vectors and
/// room in 16 bits, tiles are faster.
template <class T>
void choose_rows(SharedGemm& p) {
  const int room = room_of(p.form.largest_byte());
  p.by_row = HEED_X86_BYTES && p.products < ByteProducts::fours && (room == 1 || !kWide) &&
             p.args.m >= kFewestRowsAlone;
  p.opposed = p.by_row && room == 1;
}

/// The rows of tile i rounded.
template <class T>
void round_tile(const SharedGemm& p, int64_t i) {
  if (p.compute_rows != nullptr) (*p.compute_rows)(p.first_row(i), p.first_row(i + 1));
  const Strided<float> x(p.args.x);
  for (int64_t row = p.first_row(i); row < p.first_row(i + 1); ++row)
    round_row(p, i, row, 0, p.args.k, x.data + row * x.row);
}

/// Numbers [from, from + count) of rows [begin, end), the first of which begins with x, rounded.
void round_rows(const SharedGemm& p, int64_t begin, int64_t end, int64_t from, int64_t count, const float* x,
                int64_t ldx) {
  int64_t i = 0;
  for (int64_t row = begin; row < end; ++row, x += ldx) {
    while (p.first_row(i + 1) <= row) ++i;
    round_row(p, i, row, from, count, x);
  }
}

HWY_INLINE void run_tile(const SharedGemm& p, int64_t rows, const Int8Tile& t) {
#if HEED_TILES
  if (p.products == ByteProducts::tiles)
    return p.center > 0 ? run_amx_tile<true>(rows, t) : run_amx_tile<false>(rows, t);
#endif
  with_room(p.form, p.products, [&]<int Room>(std::integral_constant<int, Room>) HWY_ATTR {
#if HEED_X86_BYTES
    if constexpr (Room == 1 || (Room > 1 && !kWide)) {
      if (p.by_row)
        return t.offset != nullptr ? run_rows<Room, true>(rows, t) : run_rows<Room, false>(rows, t);
    }
#endif
    run_tile_of<Room>(rows, t, std::make_integer_sequence<int, kInt8Rows<Room>>());
  });
}

HWY_INLINE int64_t rows_at_once(const SharedGemm& p) {
  int64_t rows = 0;
  with_room(p.form, p.products,
            [&]<int Room>(std::integral_constant<int, Room>) { rows = kInt8RowsAtOnce<Room>; });
  return rows;
}

/// Steps of k that a panel is unpacked for, at most: with tiles of many rows, it may come from the
/// second-level cache.
HWY_INLINE int64_t depth_of(const SharedGemm& p) {
  return kWide && p.products == ByteProducts::fours ? kInt8Depth : kInt8Depth / 2;
}

/// Tiles [begin, end) with panels [first, last).
template <class T>
void run_int8(const SharedGemm& p, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const BlockForm& form = p.form;
  const int64_t k = p.args.k, steps = p.steps;
  if (HEED_BYTES && p.args.m == 1) {  // another thread has rounded x: fetch all of it at once
    for (int64_t at = 0; at < k; at += 64) __builtin_prefetch(p.codes + at);
    for (int64_t g = 0; g < k / steps; g += 64 / sizeof(GroupOfRow)) __builtin_prefetch(p.groups + g);
  }
  thread_local BytePanel bytes;
#if HEED_X86_BYTES
  thread_local Versions versions;
#endif
  HWY_ALIGN float sums[kMostRows * kNr] = {};
  Int8Tile t{};
  t.quads = std::min(p.chunk, steps) / 4;
  t.chunks = steps / (t.quads * 4);
  while (steps << t.share < form.group) ++t.share;
  t.codes = bytes.codes;
#if HEED_X86_BYTES
  if (p.opposed) t.codes = versions.codes;
#endif
  t.scale = bytes.scale;
  t.offset = form.minimum || form.zero ? bytes.offset : nullptr;
  t.x = p.codes;
  t.x_groups = p.groups;
  t.y = sums;
  if (HEED_BYTES && p.next == nullptr && p.args.m <= rows_at_once(p)) {
    for (int64_t panel = first; panel < last; ++panel) run_few_rows(p, panel, t);
    return;
  }
#if HEED_TILES
  std::optional<detail::TileRegisters> registers;
  if (p.products == ByteProducts::tiles) registers.emplace(shapes_of_bytes(p.most_rows(), t.quads * 4));
#endif
  const int64_t blocks = k / form.numbers, depth = p.opposed ? kOpposedDepth : depth_of(p);
  const int64_t parts = std::min((k + depth - 1) / depth, blocks);
  const int64_t first_row = p.first_row(begin), last_row = p.first_row(end);
  TaskSums task{p.args.y, p.args.ldy};
  thread_local std::vector<float> unrounded;
  if (p.next != nullptr) {
    unrounded.resize(static_cast<std::size_t>((last_row - first_row) * p.next->together()));
    task = {unrounded.data(), p.next->together(), first_row};
  }
  for (int64_t panel = first; panel < last; ++panel) {
    if (p.next != nullptr) task.first_panel = panel - panel * kNr % p.next->together() / kNr;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t block = blocks * part / parts, count = blocks * (part + 1) / parts - block;
      const int64_t from = block * form.numbers;
      const bool continues = p.args.accumulate || part > 0, finishes = part + 1 == parts;
      t.groups = count * form.numbers / steps;
      const std::byte* data = p.panels + panel * p.panel_bytes + block * form.bytes();
      with_codes(form, [&]<class C>(C) HWY_ATTR { unpack_bytes<C>(form, data, count, p.center, bytes); });
#if HEED_X86_BYTES
      if (p.opposed) make_versions(t.groups * steps, bytes.codes, versions.codes);
#endif
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = p.first_row(i), rows = p.first_row(i + 1) - row;
        t.x = p.codes + (row * k + from * rows) * p.code_size();
        t.x_groups = p.groups + (row * k + from * rows) / steps;
        take_sums(p, task, row, rows, panel, continues, sums, t);
        run_tile(p, rows, t);
        give_sums(p, task, row, rows, panel, finishes, sums);
      }
    }
    if (p.next != nullptr && (panel + 1) * kNr % p.next->together() == 0)
      round_rows(*p.next, first_row, last_row, task.first_panel * kNr, task.ldy, task.y, task.ldy);
  }
}

template <class T>
int64_t int8_rows(const SharedGemm& p) {
  if (p.products == ByteProducts::tiles) return kMostRows;
  if (p.by_row) return kRowsOfTile;
  int64_t rows = 0;
  with_room(p.form, p.products, [&]<int Room>(std::integral_constant<int, Room>) { rows = kInt8Rows<Room>; });
  return rows;
}

/// Bits of a vector where this target has instructions for products of bytes, else 0.
template <class T>
int64_t bits_of_vector() {
  return HEED_BYTES ? lanes<float>() * 32 : 0;
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
namespace {

HEED_EXPORT(factor_of);
HEED_EXPORT(choose_rows);
HEED_EXPORT(round_tile);
HEED_EXPORT(run_int8);
HEED_EXPORT(int8_rows);
HEED_EXPORT(bits_of_vector);

constexpr std::int64_t kThreadMacs = 1 << 19, kUnpacking = 8;  // the latter in rows of x
constexpr std::int64_t kFewestRows = 48, kFewestTiles = 8;     // that share an unpacked panel
constexpr std::int64_t kFewestRowsOfVersions = 128;            // that share its versions, whatever the cache
constexpr std::int64_t kFewestAmxRows = 16;                    // fewer leave most of a tile unused
constexpr std::int64_t kAmxChunk = 64;

std::int64_t parts(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

}  // namespace

bool detail::takes_int8(const PackedMatrix& w) {
  return w.form() && w.form()->code != CodeType::nf4 && w.form()->code != CodeType::e4m3;
}

std::int64_t detail::vector_bits() { return HEED_DISPATCH(bits_of_vector, float)(); }

std::int64_t detail::int8_threads(const InvariantGemm& args) {
  return std::max<std::int64_t>(1, (args.m + kUnpacking) * args.n * args.k / kThreadMacs);
}

namespace {

using detail::GroupOfRow;
using detail::SharedGemm;

/// How the rows of a product are rounded, and by which tiles they are multiplied.
void plan(SharedGemm& shared) {
  const InvariantGemm& args = shared.args;
  shared.form = *args.w.packed->form();
  shared.panels = args.w.packed->panel(0);
  shared.panel_bytes = args.w.packed->panel_bytes();
  shared.steps = std::min(shared.form.group, kMostSteps);
  if (shared.products == ByteProducts::tiles && args.m < kFewestAmxRows)
    shared.products = ByteProducts::fours;
  HEED_DISPATCH(choose_rows, float)(shared);
  shared.chunk = shared.by_row                                                         ? shared.steps
                 : shared.products == ByteProducts::tiles && shared.steps >= kAmxChunk ? kAmxChunk
                                                                                       : kInt8Chunk;
  shared.tiles = parts(args.m, HEED_DISPATCH(int8_rows, float)(shared));
  shared.center = shared.products == ByteProducts::tiles ? shared.form.byte_center() : 0;
  shared.factor = HEED_DISPATCH(factor_of, float)(shared);
}

bool rounds_alike(const SharedGemm& a, const SharedGemm& b) {
  return a.steps == b.steps && a.factor == b.factor && a.opposed == b.opposed && a.chunk == b.chunk &&
         a.tiles == b.tiles && a.args.x.data == b.args.x.data && a.args.x.row == b.args.x.row &&
         a.args.m == b.args.m && a.args.k == b.args.k;
}

/// Memory for the rounded rows of product `place` of those that this thread shares at once.
void hold_rounded(SharedGemm& shared, std::size_t place) {
  struct Rounded {
    struct alignas(kAmxChunk) Line {
      std::int8_t codes[kAmxChunk];
    };
    std::vector<Line> codes;
    std::vector<GroupOfRow> groups;
  };
  thread_local std::deque<Rounded> kept;
  while (kept.size() <= place) kept.emplace_back();
  Rounded& to = kept[place];
  const std::int64_t numbers = shared.args.m * shared.args.k;
  to.codes.resize(  // a line behind the last row
      static_cast<std::size_t>(numbers * shared.code_size() / kAmxChunk + 2));
  to.groups.resize(static_cast<std::size_t>(numbers / shared.steps));
  shared.codes = to.codes.front().codes;
  shared.groups = to.groups.data();
}

void round_all(const SharedGemm& shared) {
  HEED_ASSERT(shared.args.x.column == 1, "rows of numbers side by side");
  parallel_for(shared.tiles, 1 + (1 << 16) / (parts(shared.args.m, shared.tiles) * shared.args.k),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) HEED_DISPATCH(round_tile, float)(shared, i);
               });
}

/// Parts of the columns that tasks take.
std::int64_t columns(const SharedGemm& p) {
  return parts(p.args.n, p.next != nullptr ? p.next->together() : kNr);
}

void cut(SharedGemm& shared, std::int64_t team) {
  const InvariantGemm& args = shared.args;
  const std::int64_t wanted =
      team > 1 ? team * std::clamp<std::int64_t>(detail::int8_threads(args) / team, 1, detail::kTasksEach)
               : 1;
  shared.across = std::min(columns(shared), wanted);
  const std::int64_t most_down =
      shared.products == ByteProducts::fours ? args.m / kFewestRows : shared.tiles / kFewestTiles;
  shared.down = std::clamp<std::int64_t>(wanted / shared.across, 1, std::max<std::int64_t>(1, most_down));
  const std::int64_t cache = detail::second_level_cache();
  // Versions of a panel are made for the rows of a task: for as many as leave their sums and codes in the
  // cache.
  if (shared.by_row) {
    const std::int64_t sums = shared.next != nullptr ? shared.next->together() : args.n;
    const std::int64_t rows = cache / (4 * sums + shared.code_size() * args.k);
    shared.down = std::max(shared.down, parts(args.m, std::max(rows, kFewestRowsOfVersions)));
  }
  if (shared.products == ByteProducts::tiles)
    shared.down = std::max(shared.down, parts(args.m * args.k, cache / 2));
  if (shared.next != nullptr)
    shared.down = std::max(shared.down, parts(args.m * shared.next->together() * 4, cache / 4));
  shared.down = std::min(shared.down, shared.tiles);
}

}  // namespace

void detail::share_int8(SharedGemm& shared, std::int64_t team, std::size_t place, const SharedGemm* before) {
  plan(shared);
  if (before != nullptr && rounds_alike(*before, shared)) {
    shared.codes = before->codes;
    shared.groups = before->groups;
  } else {
    hold_rounded(shared, place);
    round_all(shared);
  }
  cut(shared, team);
}

void detail::int8_chain(const InvariantGemm& first, const InvariantGemm& second, ByteProducts products,
                        const ComputeRows* rows) {
  SharedGemm up, down;
  up.args = first;
  up.compute_rows = rows;
  down.args = second;
  up.products = down.products = products;
  up.next = &down;
  plan(up);
  plan(down);
  hold_rounded(up, 0);
  hold_rounded(down, 1);
  round_all(up);
  for (SharedGemm* one : {&up, &down}) {
    const std::int64_t team = team_size(int8_threads(one->args), 1);
    cut(*one, team);
    parallel_for_team(team, one->tasks(), 1, [one](std::int64_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_int8_task(*one, task);
    });
  }
}

void detail::run_int8_task(const SharedGemm& p, std::int64_t task) {
  const std::int64_t panels = parts(p.args.n, kNr), all = columns(p), each = parts(panels, all);
  const std::int64_t c = task % p.across, r = task / p.across;
  HEED_DISPATCH(run_int8, float)
  (p, p.tiles * r / p.down, p.tiles * (r + 1) / p.down, all * c / p.across * each,
   std::min(panels, all * (c + 1) / p.across * each));
}

}  // namespace heed::kernels
#endif
