// Products of rows rounded to int8 with matrices in blocks (kernels/cpu/block_panels.h): sums of integers,
// which are exact, within a group of w and at most 128 steps; then one multiplication by both scales for each
// group, in the order of k. So a row has the same bits whatever its neighbors, the threads, the way the work
// is cut and the instruction set.
//
// A panel's codes become bytes once for all rows of x and a part of k, four steps of a row of w side by
// side, and stay in the first-level cache while the tiles of x pass over them. A single row takes them out of
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
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/int8_gemm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <deque>
#include <optional>

#include "kernels/cpu/byte_panel-inl.h"
#include "kernels/cpu/bytes-inl.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/opposed-inl.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

using detail::GroupOfRow;
using detail::SharedGemm;

/// How many sums of two products with int8 fit in 16 bits; 1: two products do if one of them is turned.
constexpr int room_of(int largest) { return largest <= 15 ? 8 : largest <= 31 ? 4 : largest <= 63 ? 2 : 1; }
/// Quads of a row that are multiplied together. More than four would save few sums.
[[maybe_unused]] constexpr int quads_together(int room) { return room == 2 ? 2 : 4; }

/// Whether a panel is two vectors, and there are registers for a tile's sums of integers beside its numbers.
inline constexpr bool kWide = lanes<float>() == 16;
/// Rows of a tile: with two vectors of columns their sums fill the registers.
inline constexpr int kInt8Rows = kWide ? 6 : HWY_ARCH_ARM ? 8 : 4;
/// How many rows are worth it to multiply one after the other: the versions of a panel take time.
inline constexpr int64_t kFewestRowsAlone = 16;
/// Rows of a tile then.
inline constexpr int64_t kRowsOfTile = 8;
#if HEED_TILES
inline constexpr int64_t kMostRows = detail::kTileRows;
#else
inline constexpr int64_t kMostRows = std::max<int64_t>(kInt8Rows, kRowsOfTile);
#endif

/// Rounds a row of x. Its chunks and groups lie `rows` apart, and have a sum for each `steps`; p.factor is
/// what the bytes of w are below the codes, which the sums are for.
void round_row(const SharedGemm& p, const float* x, int64_t rows, std::int8_t* codes, GroupOfRow* groups) {
  constexpr int64_t N = lanes<float>();
  const Tag<float> f;
  const hn::Rebind<std::int8_t, Tag<float>> narrow;
  const int64_t steps = p.steps, within = p.chunk - 1;
  const int64_t together = std::max(steps, kInt8Chunk);  // with one scale
  const int64_t size = p.code_size();
  const auto code_at = [&](int64_t i) { return codes + ((i & ~within) * rows + (i & within)) * size; };
  for (int64_t g = 0; g < p.args.k; g += together, x += together, codes += rows * together * size) {
    auto most = hn::Zero(f), poison = hn::Zero(f);
    for (int64_t i = 0; i < together; i += N) {
      const auto v = load(x + i);
      most = hn::Max(most, hn::Abs(v));
      poison = hn::MulAdd(v, hn::Zero(f), poison);  // NaN where v is not finite
    }
    if (const float bad = total<float>(poison); bad != 0) {
      for (int64_t i = 0; i < together; i += kInt8Chunk)
        std::fill_n(code_at(i), kInt8Chunk * size, std::int8_t{0});
      for (int64_t begin = 0; begin < together; begin += steps, groups += rows) *groups = {bad, bad, 0};
      continue;
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(f, most));
    const bool vanishes = largest < 1e-35F;  // else the reciprocal might not be finite
    const auto inverse = broadcast(vanishes ? 0.0F : 127.0F / largest);
    const float scale = vanishes ? 0.0F : largest / 127.0F;
    for (int64_t begin = 0; begin < together; begin += steps, groups += rows) {
      auto sums = hn::Zero(IntTag());
      HWY_ALIGN std::int8_t plain[kMostSteps];
      for (int64_t i = begin; i < begin + steps; i += N) {
        const auto code = hn::NearestInt(hn::Mul(load(x + i), inverse));
        hn::StoreU(hn::DemoteTo(narrow, code), narrow, p.opposed ? plain + (i - begin) : code_at(i));
        sums = hn::Add(sums, code);
      }
      const std::int32_t sum = hn::GetLane(hn::SumOfLanes(IntTag(), sums));
      *groups = {scale, static_cast<float>(sum) * scale, p.factor * sum};
      if (p.opposed) groups->rest += oppose(steps, plain, [&](int64_t i) { return code_at(begin + i); });
    }
  }
}

/// What of a tile and a panel takes part in a product.
struct Int8Tile {
  int64_t groups;             // of sums
  int64_t chunks;             // in one
  int64_t quads;              // in a chunk: 4, 8 or 16
  int share;                  // 2^share of them have a scale of the panel in common
  const std::uint8_t* codes;  // of the panel
  const float* scale;
  const float* offset;  // or null
  const std::int8_t* x;
  const GroupOfRow* x_groups;
  const float* before;  // what the sums begin with, rows ld_before apart
  int64_t ld_before;
  float* y;  // [rows][32]

  /// Chunk c of the first row, counted from the first group.
  HWY_INLINE const std::int8_t* x_of(int64_t c, int64_t rows) const {
    return quads == 4 ? x + (c / 2 * rows * kInt8Chunk + c % 2 * 16) : x + c * rows * quads * 4;
  }
};

/// y + a sum of integers, scaled: what every kernel does with a group. Rest: whether the sum lacks x.rest.
template <bool Offset, bool Rest = true>
HWY_INLINE Vec<float> add_scaled(const GroupOfRow& x, Ints sum, Vec<float> scale, Vec<float> offset,
                                 Vec<float> y) {
  if (Rest) sum = hn::Add(sum, hn::Set(IntTag(), x.rest));
  const auto exact = hn::ConvertTo(Tag<float>(), sum);
  y = hn::MulAdd(exact, hn::Mul(scale, broadcast(x.scale)), y);
  return Offset ? hn::MulAdd(offset, broadcast(x.total), y) : y;
}

/// y += the sums of group g of a tile, [rows][32], scaled.
template <bool Offset, bool Rest>
HWY_INLINE void add_group(const Int8Tile& t, int64_t rows, int64_t g, const std::int32_t* sums) {
  constexpr int64_t N = lanes<float>();
  const int64_t place = (g >> t.share) * kNr;
  for (int64_t first = 0; first < kNr; first += 2 * N) {
    Vec<float> scale[2], offset[2];
    for (int j = 0; j < 2; ++j) {
      scale[j] = load(t.scale + place + first + j * N);
      offset[j] = Offset ? load(t.offset + place + first + j * N) : scale[j];
    }
    const GroupOfRow* x = t.x_groups + g * rows;
    const std::int32_t* sum = sums + first;
    const float* before = (g == 0 ? t.before : t.y) + first;
    const int64_t distance = g == 0 ? t.ld_before : kNr;
    float* y = t.y + first;
    for (int64_t r = 0; r < rows; ++r, ++x, sum += kNr, before += distance, y += kNr) {
      for (int j = 0; j < 2; ++j) {
        const Ints exact = hn::LoadU(IntTag(), sum + j * N);
        store<float>(add_scaled<Offset, Rest>(*x, exact, scale[j], offset[j], load(before + j * N)),
                     y + j * N);
      }
    }
  }
}
template <bool Rest>
HWY_INLINE void add_group(const Int8Tile& t, int64_t rows, int64_t g, const std::int32_t* sums) {
  if (t.offset != nullptr) return add_group<true, Rest>(t, rows, g, sums);
  add_group<false, Rest>(t, rows, g, sums);
}

#if HEED_BYTES

/// y += a tile of x times a panel, in fours of bytes; all sums stay in registers.
template <int Rows, int Room, bool Offset>
HWY_NOINLINE void run_wide_tile(const Int8Tile& t) {
  constexpr int64_t N = lanes<float>();
  Vec<float> y[Rows][2];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    y[r][0] = load(t.before + r * t.ld_before);
    y[r][1] = load(t.before + r * t.ld_before + N);
  }
  const std::uint8_t* w = t.codes;
  const GroupOfRow* group = t.x_groups;
  for (int64_t g = 0; g < t.groups; ++g, group += Rows) {
    Bytes sum[Rows][2];
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = words(group[r].rest);
    for (int64_t c = 0; c < t.chunks; ++c) {
      const std::int8_t* x = t.x_of(g * t.chunks + c, Rows);
      for (int64_t q = 0; q < t.quads; ++q, w += kNr * 4, x += 4) {
        const Bytes a = prepared<Room>(load_bytes(w)), b = prepared<Room>(load_bytes(w + N * 4));
        HWY_UNROLL(16)
        for (int r = 0; r < Rows; ++r) {
          const Bytes v = words(word_at(x + r * kInt8Chunk));
          sum[r][0] = add_products<Room>(sum[r][0], a, v);
          sum[r][1] = add_products<Room>(sum[r][1], b, v);
        }
      }
    }
    const int64_t place = (g >> t.share) * kNr;
    for (int j = 0; j < 2; ++j) {
      const Vec<float> scale = load(t.scale + place + j * N);
      const Vec<float> offset = Offset ? load(t.offset + place + j * N) : scale;
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const auto exact = hn::ConvertTo(Tag<float>(), Ints{sum[r][j]});
        y[r][j] = hn::MulAdd(exact, hn::Mul(scale, broadcast(group[r].scale)), y[r][j]);
        if (Offset) y[r][j] = hn::MulAdd(offset, broadcast(group[r].total), y[r][j]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    store<float>(y[r][0], t.y + r * kNr);
    store<float>(y[r][1], t.y + r * kNr + N);
  }
}

#if HEED_X86_BYTES
/// Adds the products of quads of a row, as many as 16 bits have room for, but at most four.
template <int Room>
HWY_INLINE void add_quads(const std::uint8_t* w, const std::int8_t* x, Bytes ones, Bytes (&sum)[kVectors]) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  Bytes part[kVectors];
  HWY_UNROLL(4)
  for (int q = 0; q < quads_together(Room); ++q, w += kNr * 4, x += 4) {
    const Bytes v = words(word_at(x));
    for (int j = 0; j < kVectors; ++j) {
      const Bytes a = load_bytes(w + j * kBytes);
      part[j] = q == 0 ? pairs(a, v) : add_pairs(part[j], a, v);
    }
  }
  for (int j = 0; j < kVectors; ++j) sum[j] = add_words(sum[j], fours(part[j], ones));
}
/// The same of opposed rows, with a panel of which there are all versions.
template <>
HWY_INLINE void add_quads<1>(const std::uint8_t* w, const std::int8_t* x, Bytes ones,
                             Bytes (&sum)[kVectors]) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  HWY_UNROLL(4)
  for (int q = 0; q < quads_together(1); ++q, w += kVersions * kNr * 4, x += kQuadSize) {
    const std::uint8_t* version = w + word_at(x + 4);
    const Bytes v = words(word_at(x));
    for (int j = 0; j < kVectors; ++j) sum[j] = add_fours(sum[j], load_bytes(version + j * kBytes), v, ones);
  }
}

/// y += rows of x, one after the other, times a panel.
template <int Room, bool Offset>
HWY_NOINLINE void run_rows(int64_t rows, const Int8Tile& t) {
  constexpr int64_t N = lanes<float>();
  constexpr int V = kVectors;
  constexpr int64_t kTogether = quads_together(Room), kOfX = Room == 1 ? kQuadSize : 4;
  constexpr int64_t kOfW = kNr * 4 * (Room == 1 ? kVersions : 1);
  const Bytes ones = words(kOnes);
  const int64_t size = t.quads * kOfX;  // of the rounded numbers of a group
  for (int64_t r = 0; r < rows; ++r) {
    Vec<float> y[V];
    for (int j = 0; j < V; ++j) y[j] = load(t.before + r * t.ld_before + j * N);
    const std::uint8_t* w = t.codes;
    const std::int8_t* x = t.x + r * size;
    const GroupOfRow* group = t.x_groups + r;
    for (int64_t g = 0; g < t.groups; ++g, group += rows, x += rows * size) {
      Bytes sum[V];
      for (int j = 0; j < V; ++j) sum[j] = words(0);
      for (int64_t at = 0; at < size; at += kTogether * kOfX, w += kTogether * kOfW)
        add_quads<Room>(w, x + at, ones, sum);
      const int64_t place = (g >> t.share) * kNr;
      for (int j = 0; j < V; ++j) {
        const Vec<float> scale = load(t.scale + place + j * N);
        const Vec<float> offset = Offset ? load(t.offset + place + j * N) : scale;
        y[j] = add_scaled<Offset>(*group, Ints{sum[j]}, scale, offset, y[j]);
      }
    }
    for (int j = 0; j < V; ++j) store<float>(y[j], t.y + r * kNr + j * N);
  }
}
#endif

/// y += a tile of x times a panel. Room: how products are added (bytes-inl.h).
template <int Rows, int Room>
HWY_NOINLINE void run_int8_tile(const Int8Tile& t) {
  if constexpr (kWide && Room <= 0)
    return t.offset != nullptr ? run_wide_tile<Rows, Room, true>(t) : run_wide_tile<Rows, Room, false>(t);
  HWY_ALIGN std::int32_t sums[Rows * kNr];
  for (int64_t g = 0; g < t.groups; ++g) {
    for (int64_t j = 0; j < kNr; j += 2 * lanes<float>()) {
      for (int64_t c = g * t.chunks; c < (g + 1) * t.chunks; ++c) {
        const std::uint8_t* w = t.codes + (c * t.quads * kNr + j) * 4;
        const bool joins = c > g * t.chunks;
        if constexpr (Room <= 0) {
          sum_fours<Rows, Room>(t.quads, w, t.x_of(c, Rows), joins, sums + j);
        } else if constexpr (Room == 1) {
          sum_signed<Rows>(t.quads, w, t.x_of(c, Rows), joins, sums + j);
        } else {
          sum_pairs<Rows, Room>(t.quads, w, t.x_of(c, Rows), joins, sums + j);
        }
      }
    }
    add_group<true>(t, Rows, g, sums);
  }
}

#if HEED_TILES
/// y += a tile of x times a panel, in AMX's registers. Where they are for a row more than the tile has, that
/// is the one which lies behind it, whose sums nobody reads.
template <bool Signed>
HWY_NOINLINE void run_amx_tile(int64_t rows, const Int8Tile& t) {
  HWY_ALIGN std::int32_t sums[2][detail::kTileRows * kNr];
  const std::uint8_t* w = t.codes;
  for (int64_t g = 0; g <= t.groups; ++g) {
    if (g < t.groups) {
      detail::zero_tile<0>();
      detail::zero_tile<1>();
      for (int64_t c = g * t.chunks; c < (g + 1) * t.chunks; ++c, w += t.quads * kNr * 4)
        add_tiles<Signed>(w, t.x_of(c, rows), std::max(kInt8Chunk, t.quads * 4));
    }
    if (g > 0) add_group<false>(t, rows, g - 1, sums[(g - 1) % 2]);
    if (g < t.groups) {
      detail::store_tile<0>(sums[g % 2], kNr * 4);
      detail::store_tile<1>(sums[g % 2] + kNr / 2, kNr * 4);
    }
  }
}
#endif

/// y[32] += a row of x times a panel, whose codes stay in registers.
template <class C, int Room>
HWY_NOINLINE void run_int8_row(const BlockForm& form, const std::byte* block, int64_t k, const Int8Tile& t) {
  constexpr int64_t N = lanes<float>();
  constexpr int V = kVectors;
  const int64_t size = form.bytes(), planes = form.scale_bytes();
  const ByteTable table(form);
  HWY_ALIGN float scales[kMostGroups * kNr];
  HWY_ALIGN float offsets[kMostGroups * kNr];
  Vec<float> y[V];
  for (int j = 0; j < V; ++j) y[j] = load(t.before + j * N);
  const std::int8_t* x = t.x;
  const GroupOfRow* group = t.x_groups;
  for (int64_t step = 0; step < k; step += form.numbers, block += size) {
    scales_and_offsets(form, block, scales, offsets);
    const std::byte *low = block + planes, *high = low + form.plane_bytes(C::kLow);
    const float *scale = scales, *offset = offsets;
    int64_t done = 0;  // groups of sums
    GroupSum<Room> sums[V];
    const auto finish = [&]() HEED_INLINE_LAMBDA {
      for (int j = 0; j < V; ++j) {
        const Ints sum = sums[j].take();
        const Vec<float> w = load(scale + j * N);
        y[j] = t.offset != nullptr ? add_scaled<true>(*group, sum, w, load(offset + j * N), y[j])
                                   : add_scaled<false>(*group, sum, w, w, y[j]);
      }
      ++group;
      if ((++done & ((1 << t.share) - 1)) == 0) scale += kNr, offset += kNr;
    };
    for (int64_t chunk = 0, left = t.chunks; chunk * kInt8Chunk < form.numbers; ++chunk) {
      for_quads(
          [&]<int Q>(std::integral_constant<int, Q>) HEED_INLINE_LAMBDA {
            const Bytes v = words(word_at(x + Q * 4));
            for (int j = 0; j < V; ++j) {
              Words q = quad_of<C, Q>(low, high, j * N);
              if constexpr (C::kReading == Reading::table) q = table(q);
              sums[j].template add<Q>(hn::BitCast(IntTag(), q).raw, v);
            }
            if (Q == 3 && t.quads == 4) finish();
          },
          kChunkQuads);
      if (--left == 0) finish(), left = t.chunks;
      low += kNr * 4 * C::kLow;
      high += kNr * 4 * C::kHigh;
      x += kInt8Chunk;
    }
  }
  for (int j = 0; j < V; ++j) store<float>(y[j], t.y + j * N);
}

#else

template <int Rows, int Room>
HWY_NOINLINE void run_int8_tile(const Int8Tile& t) {
  std::int32_t sums[Rows * kNr];
  for (int64_t g = 0; g < t.groups; ++g) {
    std::fill(sums, sums + Rows * kNr, 0);
    for (int64_t c = g * t.chunks; c < (g + 1) * t.chunks; ++c) {
      const std::uint8_t* w = t.codes + c * t.quads * kNr * 4;
      const std::int8_t* x = t.x_of(c, Rows);
      for (int r = 0; r < Rows; ++r) {
        for (int64_t q = 0; q < t.quads; ++q) {
          for (int64_t j = 0; j < kNr; ++j) {
            for (int64_t s = 0; s < 4; ++s)
              sums[r * kNr + j] += w[(q * kNr + j) * 4 + s] * x[r * kInt8Chunk + q * 4 + s];
          }
        }
      }
    }
    add_group<true>(t, Rows, g, sums);
  }
}

#endif

/// Calls fn with the Room of products with a matrix of this form, as an integral constant.
template <class Fn>
HWY_INLINE void with_room([[maybe_unused]] const BlockForm& form, ByteProducts products, const Fn& fn) {
  if (!HEED_BYTES || products >= ByteProducts::fours) return fn(std::integral_constant<int, kFours>());
#if HWY_TARGET == HWY_NEON
  if (products == ByteProducts::signed_fours) return fn(std::integral_constant<int, kSignedFours>());
  return fn(std::integral_constant<int, kLong>());
#elif HEED_BYTES
  switch (room_of(form.largest_byte())) {
    case 8: return fn(std::integral_constant<int, 8>());
    case 4: return fn(std::integral_constant<int, 4>());
    case 2: return fn(std::integral_constant<int, 2>());
    default: return fn(std::integral_constant<int, 1>());
  }
#endif
}

template <int Room, int... R>
HWY_INLINE void run_tile_of(int64_t rows, const Int8Tile& t, std::integer_sequence<int, R...>) {
  static constexpr void (*functions[])(const Int8Tile&) = {run_int8_tile<R + 1, Room>...};
  functions[rows - 1](t);
}

HWY_INLINE void copy_columns(const float* from, int64_t count, float* to) {
  if (count < kNr) return static_cast<void>(std::copy(from, from + count, to));
  HWY_UNROLL(8)
  for (int64_t j = 0; j < kNr; j += lanes<float>()) store<float>(load(from + j), to + j);
}

/// What the sums of a tile with a panel begin with: zeros, or those of y, which are in `sums` where the panel
/// is not whole.
HWY_INLINE void take_sums(const SharedGemm& p, int64_t first, int64_t rows, int64_t panel, bool continues,
                          float* sums, Int8Tile& t) {
  static constexpr float kZeros[kNr] = {};
  const int64_t width = std::min(kNr, p.args.n - panel * kNr);
  t.before = p.args.y + first * p.args.ldy + panel * kNr;
  t.ld_before = p.args.ldy;
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
void give_sums(const SharedGemm& p, int64_t first, int64_t rows, int64_t panel, bool finishes, float* sums) {
  const int64_t column = panel * kNr, width = std::min(kNr, p.args.n - column);
  const Epilogue& epilogue = p.args.epilogue;
  if (finishes && epilogue.bias != nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) sums[r * kNr + j] += epilogue.bias[column + j];
    }
  }
  if (finishes && epilogue.activation != Activation::none)
    activate<float>(epilogue.activation, sums, sums, rows * kNr);
  float* y = p.args.y + first * p.args.ldy + column;
  for (int64_t r = 0; r < rows; ++r) copy_columns(sums + r * kNr, width, y + r * p.args.ldy);
}

/// A single row with a panel.
[[maybe_unused]] void run_row(const SharedGemm& p, int64_t panel, Int8Tile& t) {
  take_sums(p, 0, 1, panel, p.args.accumulate, t.y, t);
#if HEED_BYTES
  with_room(p.form, p.products, [&]<int Room>(std::integral_constant<int, Room>) HWY_ATTR {
    with_codes(p.form, [&]<class C>(C) HWY_ATTR {
      // Codes have one room, but those of a table.
      if constexpr (Room <= 0 || C::kReading == Reading::table ||
                    Room == room_of((1 << (C::kLow + C::kHigh)) - 1)) {
        run_int8_row<C, Room>(p.form, p.panels + panel * p.panel_bytes, p.args.k, t);
      }
    });
  });
#endif
  give_sums(p, 0, 1, panel, true, t.y);
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
void round_tile(const SharedGemm& p, int64_t i, std::int8_t* codes, GroupOfRow* groups) {
  const Strided<float> x(p.args.x);
  const int64_t k = p.args.k, first = p.first_row(i), rows = p.first_row(i + 1) - first;
  for (int64_t r = 0; r < rows; ++r) {
    round_row(p, x.data + (first + r) * x.row, rows, codes + (first * k + r * p.chunk) * p.code_size(),
              groups + first * (k / p.steps) + r);
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
    run_tile_of<Room>(rows, t, std::make_integer_sequence<int, kInt8Rows>());
  });
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
  if (HEED_BYTES && p.args.m == 1) {
    for (int64_t panel = first; panel < last; ++panel) run_row(p, panel, t);
    return;
  }
#if HEED_TILES
  std::optional<detail::TileRegisters> registers;
  if (p.products == ByteProducts::tiles) registers.emplace(shapes_of_bytes(p.most_rows(), t.quads * 4));
#endif
  const int64_t blocks = k / form.numbers, depth = p.opposed ? kOpposedDepth : kInt8Depth;
  const int64_t parts = std::min((k + depth - 1) / depth, blocks);
  for (int64_t panel = first; panel < last; ++panel) {
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
        take_sums(p, row, rows, panel, continues, sums, t);
        run_tile(p, rows, t);
        give_sums(p, row, rows, panel, finishes, sums);
      }
    }
  }
}

template <class T>
int64_t int8_rows(const SharedGemm& p) {
  return p.products == ByteProducts::tiles ? kMostRows : p.by_row ? kRowsOfTile : kInt8Rows;
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
constexpr std::int64_t kFewestTiles = 8;                       // that share an unpacked panel
constexpr std::int64_t kFewestAmxRows = 16;                    // fewer leave most of a tile unused
constexpr std::int64_t kAmxChunk = 64;
constexpr std::int64_t kMostTiles = 16;  // whose sums stay in the second-level cache

std::int64_t parts(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

}  // namespace

bool detail::takes_int8(const PackedMatrix& w) {
  return w.form() && w.form()->code != CodeType::nf4 && w.form()->code != CodeType::e4m3;
}

std::int64_t detail::vector_bits() { return HEED_DISPATCH(bits_of_vector, float)(); }

std::int64_t detail::int8_threads(const InvariantGemm& args) {
  return std::max<std::int64_t>(1, (args.m + kUnpacking) * args.n * args.k / kThreadMacs);
}

void detail::share_int8(SharedGemm& shared, std::int64_t team, std::size_t place, const SharedGemm* before) {
  const InvariantGemm& args = shared.args;
  HEED_ASSERT(args.x.column == 1, "rows of numbers side by side");
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
  if (before != nullptr && before->steps == shared.steps && before->factor == shared.factor &&
      before->opposed == shared.opposed && before->chunk == shared.chunk &&
      before->args.x.data == args.x.data && before->args.x.row == args.x.row && before->args.m == args.m &&
      before->args.k == args.k) {
    shared.codes = before->codes;
    shared.groups = before->groups;
  } else {
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
    to.codes.resize(static_cast<std::size_t>(args.m * args.k * shared.code_size() / kAmxChunk +
                                             2));  // a line behind the last row
    to.groups.resize(static_cast<std::size_t>(args.m * args.k / shared.steps));
    std::int8_t* codes = to.codes.front().codes;
    shared.codes = codes;
    shared.groups = to.groups.data();
    parallel_for(shared.tiles, 1 + (1 << 16) / (parts(args.m, shared.tiles) * args.k),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     HEED_DISPATCH(round_tile, float)(shared, i, codes, to.groups.data());
                 });
  }
  const std::int64_t wanted =
      team > 1 ? team * std::clamp<std::int64_t>(int8_threads(args) / team, 1, detail::kTasksEach) : 1;
  shared.across = std::min(parts(args.n, kNr), wanted);
  shared.down = std::clamp<std::int64_t>(wanted / shared.across, 1,
                                         std::max<std::int64_t>(1, shared.tiles / kFewestTiles));
  if (shared.by_row) shared.down = std::max(shared.down, parts(shared.tiles, kMostTiles));
  if (shared.products == ByteProducts::tiles)
    shared.down = std::max(shared.down, parts(args.m * args.k, second_level_cache() / 2));
}

void detail::run_int8_task(const SharedGemm& p, std::int64_t task) {
  const std::int64_t panels = parts(p.args.n, kNr), c = task % p.across, r = task / p.across;
  HEED_DISPATCH(run_int8, float)
  (p, p.tiles * r / p.down, p.tiles * (r + 1) / p.down, panels * c / p.across, panels * (c + 1) / p.across);
}

}  // namespace heed::kernels
#endif
