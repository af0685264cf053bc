// A tile of rounded rows times a panel (kernels/cpu/int8_gemm.cpp), by each of the ways to add products of
// bytes, and a few rows that take the codes out of the panel.
#if defined(HEED_KERNELS_INT8_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_INT8_TILE_INL_H_
#undef HEED_KERNELS_INT8_TILE_INL_H_
#else
#define HEED_KERNELS_INT8_TILE_INL_H_
#endif

#include "kernels/cpu/byte_panel-inl.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/opposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

using detail::GroupOfRow;

/// How many sums of two products with int8 fit in 16 bits; 1: two products do if one of them is turned.
constexpr int room_of(int largest) { return largest <= 15 ? 8 : largest <= 31 ? 4 : largest <= 63 ? 2 : 1; }
/// Quads of a row that are multiplied together. More than four would save few sums.
[[maybe_unused]] constexpr int quads_together(int room) { return room == 2 ? 2 : 4; }

/// Whether a panel is two vectors, and there are registers for a tile's sums of integers beside its numbers.
inline constexpr bool kWide = lanes<float>() == 16;
/// Rows of a tile: with two vectors of columns their sums fill the registers.
template <int Room>
inline constexpr int kInt8Rows = !kWide     ? (HWY_ARCH_ARM ? 8 : 4)
                                 : Room > 0 ? 6
                                            : 12;
/// How many rows are multiplied with codes that stay in registers, as their sums do. More are worth storing
/// the bytes of a panel.
template <int Room>
inline constexpr int kInt8RowsAtOnce = kWide&& Room <= 0 ? 8 : 1;

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

/// y += a tile of x times a panel, in fours of bytes. All sums of integers stay in registers: a sum is added
/// to every 12 cycles, as its instruction takes 5.
template <int Rows, int Room, bool Offset>
HWY_NOINLINE void run_wide_tile(const Int8Tile& t) {
  constexpr int64_t N = lanes<float>();
  const float* before = t.before;
  int64_t ld_before = t.ld_before, chunk = 0;
  const std::uint8_t* w = t.codes;
  const GroupOfRow* group = t.x_groups;
  for (int64_t g = 0; g < t.groups; ++g, group += Rows) {
    Bytes sum[Rows][2];
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = words(group[r].rest);
    int64_t left = t.chunks;
    do w = add_chunk<Rows, Room>(t.quads, w, t.x_of(chunk++, Rows), sum);
    while (--left > 0);
    const int64_t place = (g >> t.share) * kNr;
    HWY_UNROLL(2)
    for (int j = 0; j < 2; ++j) {
      const Vec<float> scale = load(t.scale + place + j * N);
      const Vec<float> offset = Offset ? load(t.offset + place + j * N) : scale;
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const Vec<float> y = load(before + r * ld_before + j * N);
        store<float>(add_scaled<Offset, false>(group[r], Ints{sum[r][j]}, scale, offset, y),
                     t.y + r * kNr + j * N);
      }
    }
    before = t.y;
    ld_before = kNr;
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

/// y[R][32] += R rows of x times a panel, whose codes stay in registers.
template <class C, int Room, int R>
HWY_NOINLINE void run_int8_rows(const BlockForm& form, const std::byte* block, int64_t k, const Int8Tile& t) {
  constexpr int64_t N = lanes<float>();
  constexpr int V = kVectors;
  const int64_t size = form.bytes(), planes = form.scale_bytes();
  const ByteTable table(form);
  HWY_ALIGN float scales[kMostGroups * kNr];
  HWY_ALIGN float offsets[kMostGroups * kNr];
  Vec<float> y[R][V];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < V; ++j) y[r][j] = load(t.before + r * t.ld_before + j * N);
  }
  const std::int8_t* x = t.x;
  const GroupOfRow* group = t.x_groups;
  for (int64_t step = 0; step < k; step += form.numbers, block += size) {
    scales_and_offsets(form, block, scales, offsets);
    const std::byte *low = block + planes, *high = low + form.plane_bytes(C::kLow);
    const float *scale = scales, *offset = offsets;
    int64_t done = 0;  // groups of sums
    GroupSum<Room> sums[R][V];
    const auto finish = [&]() HEED_INLINE_LAMBDA {
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r, ++group) {
        for (int j = 0; j < V; ++j) {
          const Ints sum = sums[r][j].take();
          const Vec<float> w = load(scale + j * N);
          y[r][j] = t.offset != nullptr ? add_scaled<true>(*group, sum, w, load(offset + j * N), y[r][j])
                                        : add_scaled<false>(*group, sum, w, w, y[r][j]);
        }
      }
      if ((++done & ((1 << t.share) - 1)) == 0) scale += kNr, offset += kNr;
    };
    for (int64_t chunk = 0, left = t.chunks; chunk * kInt8Chunk < form.numbers; ++chunk) {
      for_quads(
          [&]<int Q>(std::integral_constant<int, Q>) HEED_INLINE_LAMBDA {
            Bytes w[V];
            for (int j = 0; j < V; ++j) {
              Words q = quad_of<C, Q>(low, high, j * N);
              if constexpr (C::kReading == Reading::table) q = table(q);
              w[j] = hn::BitCast(IntTag(), q).raw;
            }
            HWY_UNROLL(8)
            for (int r = 0; r < R; ++r) {
              const Bytes v = words(word_at(x + r * kInt8Chunk + Q * 4));
              for (int j = 0; j < V; ++j) sums[r][j].template add<Q>(w[j], v);
            }
            if (Q == 3 && t.quads == 4) finish();
          },
          kChunkQuads);
      if (--left == 0) finish(), left = t.chunks;
      low += kNr * 4 * C::kLow;
      high += kNr * 4 * C::kHigh;
      x += R * kInt8Chunk;
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < V; ++j) store<float>(y[r][j], t.y + r * kNr + j * N);
  }
}
template <class C, int Room, int... R>
HWY_INLINE void run_int8_rows_of(int64_t rows, const BlockForm& form, const std::byte* block, int64_t k,
                                 const Int8Tile& t, std::integer_sequence<int, R...>) {
  static constexpr void (*functions[])(const BlockForm&, const std::byte*, int64_t,
                                       const Int8Tile&) = {run_int8_rows<C, Room, R + 1>...};
  functions[rows - 1](form, block, k, t);
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

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
