// The product of bf16 operands. Where the processor has no instructions for it, the operands are rounded, and
// multiplied in f32, where the product of two bf16 numbers is exact.
//
// Otherwise it runs on the tiles of Intel's AMX (kernels/cpu/amx.h): one instruction adds the product of a
// tile of x, 16 rows times 32 steps of k, and one of w, 16 pairs of steps times 16 columns, to a tile of
// 16 x 16 sums.
//
// Both operands are rounded and rearranged into tiles: all of w first, then x for kMc rows and kKc steps at a
// time. A block of w's tiles stays in the second-level cache and two panels of x in the first while the
// product is computed row after row, so that it is written in the order of memory. Four tiles of sums take
// part, so that each loaded tile is used twice.
#include <vector>

#include "heed/dtype.h"
#include "heed/threads.h"
#include "kernels/copy.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/gemm.h"

namespace heed::kernels {
namespace {

// Whole lines of memory of a matrix [rows, columns] of f32, rounded.
std::vector<bfloat16> rounded(const StridedMatrix& x, std::int64_t rows, std::int64_t columns) {
  const std::int64_t lines = x.column == 1 ? rows : columns, length = x.column == 1 ? columns : rows;
  const std::int64_t distance = x.column == 1 ? x.row : x.column;
  const float* data = static_cast<const float*>(x.data);
  std::vector<bfloat16> numbers(static_cast<std::size_t>(lines * length));
  parallel_for(lines, 1 + (std::int64_t{1} << 14) / (length + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      convert(data + i * distance, numbers.data() + i * length, length);
  });
  return numbers;
}

}  // namespace

void detail::bf16_gemm_rounded(const Bf16Gemm& args) {
  const std::vector<bfloat16> x = rounded(args.x, args.m, args.k);
  const bool is_stored = args.w.dtype == DType::bf16;
  std::vector<bfloat16> w;
  if (!is_stored) w = rounded(args.w, args.n, args.k);
  std::vector<float> wide(x.size());
  convert(x.data(), wide.data(), static_cast<std::int64_t>(x.size()));
  InvariantGemm product{.m = args.m, .n = args.n, .k = args.k};
  product.x = dense_matrix(wide.data(), DType::f32, args.m, args.k, args.x.column != 1);
  product.w.strided =
      is_stored ? args.w : dense_matrix(w.data(), DType::bf16, args.n, args.k, args.w.column != 1);
  product.y = args.y;
  product.ldy = args.ldy;
  product.accumulate = args.accumulate;
  invariant_gemm(product);
}

void bf16_gemm(const Bf16Gemm& args) {
  if (bf16_gemm_is_fast()) {
    detail::bf16_gemm_amx(args);
  } else {
    detail::bf16_gemm_rounded(args);
  }
}

}  // namespace heed::kernels

#if defined(__x86_64__) && defined(__linux__)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // gcc 12 warns of its own intrinsics, inlined here
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

#define HEED_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace heed::kernels {
namespace {

constexpr std::int64_t kSide = detail::kTileRows;  // rows or columns of a tile of sums
constexpr std::int64_t kSteps = 32;                // of k that a tile holds
constexpr std::int64_t kTile = kSide * kSteps;     // bf16 numbers in a tile
constexpr std::int64_t kPair = 2 * kSide;          // rows or columns that two tiles hold
constexpr std::int64_t kMc = 256, kKc = 512;       // rows and steps of x that are rearranged at a time
constexpr std::int64_t kBlockTiles = 512;          // of w that pass over the rows of x at a time
constexpr std::int64_t kThreadWork = 1 << 21;      // multiplications a thread should have at least

std::int64_t parts(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

struct alignas(64) Tile {
  std::uint16_t numbers[kTile];
};

// Workspace of tiles, kept for a thread's next product.
template <int Slot>
std::uint16_t* workspace(std::int64_t tiles) {
  thread_local std::vector<Tile> kept;
  if (kept.size() < static_cast<std::size_t>(tiles)) kept.resize(static_cast<std::size_t>(tiles));
  return kept.front().numbers;
}

// A matrix [lines, k] of f32 or bf16: the rows of x, or the columns of the product.
template <class T>
struct Operand {
  const T* data;
  std::int64_t lines, k, line, step;  // distances between lines, and between steps of k
};

HEED_AMX inline __m512 load(const float* x, std::int64_t count) {
  if (count >= kSide) return _mm512_loadu_ps(x);
  if (count <= 0) return _mm512_setzero_ps();
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), x);
}

HEED_AMX inline __m256i load(const bfloat16* x, std::int64_t count) {
  if (count >= kSide) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  if (count <= 0) return _mm256_setzero_si256();
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), x);
}

// 16 numbers and 16 more, as bf16.
HEED_AMX inline __m512i join(__m512 upper, __m512 lower) {
  return (__m512i)_mm512_cvtne2ps_pbh(upper, lower);
}
HEED_AMX inline __m512i join(__m256i upper, __m256i lower) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

// Row i of a becomes column i.
HEED_AMX void transpose(__m512i* a) {
  __m512i b[16];
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  for (int half = 0; half < 16; half += 8) {
    for (int i = 0; i < 4; ++i) {
      b[half + i] = _mm512_shuffle_i32x4(a[half + i], a[half + i + 4], 0x88);
      b[half + i + 4] = _mm512_shuffle_i32x4(a[half + i], a[half + i + 4], 0xdd);
    }
  }
  for (int i = 0; i < 8; ++i) {
    a[i] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0x88);
    a[i + 8] = _mm512_shuffle_i32x4(b[i], b[i + 8], 0xdd);
  }
}

// The tile of 16 lines from `line` and 32 steps from `step`, zeros beyond the matrix: [line][pair of steps],
// or, for w, [pair of steps][line]. kWhole: all of it lies within the matrix.
template <bool kWhole, class T>
HEED_AMX inline void place_tile(const Operand<T>& x, std::int64_t line, std::int64_t step, bool lines_inside,
                                std::uint16_t* tile) {
  const std::int64_t lines = kWhole ? kSide : std::min(kSide, x.lines - line);
  const std::int64_t steps = kWhole ? kSteps : std::min(kSteps, x.k - step);
  const T* corner = x.data + line * x.line + step * x.step;
  __m512i rows[16];
  if (x.step == 1) {
    for (std::int64_t i = 0; i < kSide; ++i) {
      const T* from = corner + i * x.line;
      rows[i] = i < lines ? join(load(from + 16, steps - 16), load(from, steps)) : _mm512_setzero_si512();
    }
  } else {
    // Two steps side by side: their numbers of one line become neighbors.
    const __m512i zip = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (std::int64_t i = 0; i < kSide; ++i) {
      const T* from = corner + 2 * i * x.step;
      const auto first = load(from, 2 * i < steps ? lines : 0),
                 second = load(from + x.step, 2 * i + 1 < steps ? lines : 0);
      rows[i] = _mm512_permutexvar_epi16(zip, join(second, first));
    }
  }
  if ((x.step == 1) == lines_inside) transpose(rows);
  for (std::int64_t i = 0; i < kSide; ++i) _mm512_store_si512(reinterpret_cast<__m512i*>(tile) + i, rows[i]);
}

// 32 x 32 sums over `depth` tiles of two panels of x and two of w, `x_panel` and `w_panel` numbers apart. The
// tile registers hold: 0 to 3 sums, 4 and 5 tiles of x, 6 and 7 tiles of w.
HEED_AMX void micro_kernel(std::int64_t depth, const std::uint16_t* x, std::int64_t x_panel,
                           const std::uint16_t* w, std::int64_t w_panel, float* y, std::int64_t ldy,
                           bool accumulate) {
  using namespace detail;
  const std::int64_t bytes = ldy * static_cast<std::int64_t>(sizeof(float));
  float* below = y + kSide * ldy;
  if (accumulate) {
    load_tile<0>(y, bytes);
    load_tile<1>(y + kSide, bytes);
    load_tile<2>(below, bytes);
    load_tile<3>(below + kSide, bytes);
  } else {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
  }
  for (std::int64_t l = 0; l < depth; ++l, x += kTile, w += kTile) {
    load_tile<4>(x, kTileBytes);
    load_tile<6>(w, kTileBytes);
    load_tile<7>(w + w_panel, kTileBytes);
    add_bf16_products<0, 4, 6>();
    load_tile<5>(x + x_panel, kTileBytes);
    add_bf16_products<1, 4, 7>();
    add_bf16_products<2, 5, 6>();
    add_bf16_products<3, 5, 7>();
  }
  store_tile<0>(y, bytes);
  store_tile<1>(y + kSide, bytes);
  store_tile<2>(below, bytes);
  store_tile<3>(below + kSide, bytes);
}

// The same where fewer than 32 rows or columns are y's.
HEED_AMX void micro_kernel_at_edge(std::int64_t depth, const std::uint16_t* x, std::int64_t x_panel,
                                   const std::uint16_t* w, std::int64_t w_panel, float* y, std::int64_t ldy,
                                   bool accumulate, std::int64_t rows, std::int64_t columns) {
  alignas(64) float sums[kPair * kPair];
  for (std::int64_t i = 0; accumulate && i < rows; ++i)
    std::copy(y + i * ldy, y + i * ldy + columns, sums + i * kPair);
  micro_kernel(depth, x, x_panel, w, w_panel, sums, kPair, accumulate);
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy(sums + i * kPair, sums + i * kPair + columns, y + i * ldy);
}

// Rows [first, last) and steps of k from tile `from` on, rearranged into panels of 16 rows, in the order in
// which they lie in memory.
template <class T>
HEED_AMX void place_tiles(const Operand<T>& x, std::int64_t first, std::int64_t last, std::int64_t from,
                          std::int64_t depth, bool lines_inside, std::uint16_t* to, std::int64_t panel) {
  const std::int64_t panels = parts(last - first, kSide);
  const bool by_line = x.step == 1;
  for (std::int64_t i = 0; i < panels * depth; ++i) {
    const std::int64_t p = by_line ? i / depth : i % panels, l = by_line ? i % depth : i / panels;
    const std::int64_t line = first + p * kSide, step = (from + l) * kSteps;
    std::uint16_t* tile = to + p * panel + l * kTile;
    if (line + kSide <= x.lines && step + kSteps <= x.k) {
      place_tile<true>(x, line, step, lines_inside, tile);
    } else {
      place_tile<false>(x, line, step, lines_inside, tile);
    }
  }
}

// All of w.
template <class T>
void place_all_tiles(const Bf16Gemm& p, std::uint16_t* tiles) {
  const Operand<T> w{static_cast<const T*>(p.w.data), p.n, p.k, p.w.row, p.w.column};
  const std::int64_t k_tiles = parts(p.k, kSteps), panels = 2 * parts(p.n, kPair);
  parallel_for(panels, 1 + kThreadWork / 64 / (k_tiles * kTile), [&](std::int64_t begin, std::int64_t end) {
    place_tiles(w, begin * kSide, end * kSide, 0, k_tiles, true, tiles + begin * k_tiles * kTile,
                k_tiles * kTile);
  });
}

// Rows [first, last) of the product, for columns [first_pair, last_pair) of 32.
HEED_AMX void multiply_part(const Bf16Gemm& p, const std::uint16_t* w, std::int64_t first, std::int64_t last,
                            std::int64_t first_pair, std::int64_t last_pair) {
  const Operand<float> x{static_cast<const float*>(p.x.data), p.m, p.k, p.x.row, p.x.column};
  const std::int64_t k_tiles = parts(p.k, kSteps), most = kKc / kSteps;
  const std::int64_t end = first + parts(last - first, kPair) * kPair;
  std::uint16_t* packed_x = workspace<0>(parts(kMc, kPair) * 2 * most);
  const detail::TileRegisters registers(detail::kWholeTiles);
  for (std::int64_t from = 0; from < k_tiles; from += most) {
    const std::int64_t depth = std::min(most, k_tiles - from), panel = depth * kTile;
    place_tiles(x, first, end, from, depth, false, packed_x, panel);
    const bool accumulate = p.accumulate || from > 0;
    const std::int64_t block = std::max<std::int64_t>(1, kBlockTiles / (2 * depth));
    for (std::int64_t left = first_pair; left < last_pair; left += block) {
      const std::int64_t right = std::min(left + block, last_pair);
      for (std::int64_t line = first; line < last; line += kPair) {
        const std::uint16_t* tiles = packed_x + (line - first) / kSide * panel;
        const std::int64_t rows = std::min(kPair, last - line);
        for (std::int64_t pair = left; pair < right; ++pair) {
          const std::uint16_t* panels = w + (pair * 2 * k_tiles + from) * kTile;
          const std::int64_t columns = std::min(kPair, p.n - pair * kPair);
          float* y = p.y + line * p.ldy + pair * kPair;
          if (rows == kPair && columns == kPair) {
            micro_kernel(depth, tiles, panel, panels, k_tiles * kTile, y, p.ldy, accumulate);
          } else {
            micro_kernel_at_edge(depth, tiles, panel, panels, k_tiles * kTile, y, p.ldy, accumulate, rows,
                                 columns);
          }
        }
      }
    }
  }
}

}  // namespace

bool bf16_gemm_is_fast() { return detail::has_amx(); }

void detail::bf16_gemm_amx(const Bf16Gemm& p) {
  const std::int64_t k_tiles = parts(p.k, kSteps), pairs = parts(p.n, kPair);
  std::uint16_t* tiles = workspace<1>(2 * pairs * k_tiles);
  if (p.w.dtype == DType::bf16) {
    place_all_tiles<bfloat16>(p, tiles);
  } else {
    place_all_tiles<float>(p, tiles);
  }
  // Enough parts for every thread; of rows first, since each part rearranges its own.
  const std::int64_t useful = std::max<std::int64_t>(1, p.m * p.n * p.k / kThreadWork);
  const std::int64_t team = team_size(useful, 1), wanted = team > 1 ? std::min(4 * team, useful) : 1;
  const std::int64_t row_pairs = parts(p.m, kPair);
  const std::int64_t down = std::max(parts(p.m, kMc), std::min(row_pairs, wanted));
  const std::int64_t across =
      std::clamp<std::int64_t>(wanted / down, 1, std::max<std::int64_t>(1, pairs / 4));
  parallel_for_team(team, down * across, 1, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t r = i / across, c = i % across;
      multiply_part(p, tiles, row_pairs * r / down * kPair, std::min(p.m, row_pairs * (r + 1) / down * kPair),
                    pairs * c / across, pairs * (c + 1) / across);
    }
  });
}

}  // namespace heed::kernels

#else

namespace heed::kernels {
bool bf16_gemm_is_fast() { return false; }
void detail::bf16_gemm_amx(const Bf16Gemm& args) { bf16_gemm_rounded(args); }
}  // namespace heed::kernels

#endif
