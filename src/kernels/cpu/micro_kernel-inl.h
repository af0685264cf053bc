// What the batch-invariant product is made of: packing one panel of a matrix, and the micro-kernels, mr rows
// times one or several panels of nr columns, sums in registers. Everything is in an unnamed namespace, as
// only kernels/cpu/invariant_gemm.cpp includes it.
#if defined(HEED_KERNELS_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_MICRO_KERNEL_INL_H_
#undef HEED_KERNELS_MICRO_KERNEL_INL_H_
#else
#define HEED_KERNELS_MICRO_KERNEL_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "heed/dtype.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kRun = 16;  // steps along k that share a cache line of each row

/// Packs columns [0, width) of one panel, width <= 32; the rest become zero.
template <class T>
HWY_INLINE void pack_panel(int64_t width, int64_t k, Strided<T> w, T* panel) {
  if constexpr (std::is_same_v<T, float>) {
    if (w.row != 1) return pack_transposed<float>(width, k, {w.data, w.row}, {panel, kNr}, kNr);
    if (width == kNr) {
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t j = 0; j < kNr; j += lanes<float>())
          store<float>(load(w.data + l * w.column + j), panel + l * kNr + j);
      }
      return;
    }
  }
  if (width < kNr) std::fill(panel, panel + k * kNr, T());
  if (w.row == 1) {
    for (int64_t l = 0; l < k; ++l)
      std::copy(w.data + l * w.column, w.data + l * w.column + width, panel + l * kNr);
    return;
  }
  for (int64_t l = 0; l < k; l += kRun) {
    const int64_t depth = std::min(kRun, k - l);
    for (int64_t j = 0; j < width; ++j) {
      const T* from = w.data + j * w.row + l * w.column;
      T* to = panel + l * kNr + j;
      for (int64_t r = 0; r < depth; ++r) to[r * kNr] = from[r * w.column];
    }
  }
}

/// mr, the rows of a tile: with two vectors of columns they fill the registers, 32 of AVX-512's, 16 of
/// AVX2's.
inline constexpr int kMr = lanes<float>() >= 16 ? 14 : 6;
/// Tiles of so few rows wait for memory, and fetch what they will read.
inline constexpr int kFetchRows = lanes<float>() >= 16 ? 8 : 4;

HWY_INLINE Vec<float> widened(const float* p) { return load(p); }
HWY_INLINE Vec<float> widened(const bfloat16* p) {
  const hn::Rebind<std::uint16_t, Tag<float>> narrow;
  const hn::Rebind<std::uint32_t, Tag<float>> wide;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(bits));
}
HWY_INLINE Vec<float> widened(const float16* p) {
#if HWY_TARGET == HWY_SCALAR  // Highway's own knows neither -0 nor infinity
  return broadcast(static_cast<float>(*p));
#else
  const hn::Rebind<hwy::float16_t, Tag<float>> narrow;
  return hn::PromoteTo(Tag<float>(), hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}

HWY_INLINE int64_t padded_depth(int64_t k) { return (k + kRun - 1) / kRun * kRun; }

template <class T>
struct MicroTile {
  int64_t k;
  const float* x;  // [k / 16][rows][16]
  const T* panels;
  int64_t panel_size;  // distance of one panel from the next
  const float* bias;   // for all its columns, or null
  float* y;
  int64_t ldy;
  const std::byte* next = nullptr;  // of what the next panel's tiles will read, fetched on the way:
  int64_t next_step = 0;            // pairs of cache lines at this distance,
  int64_t next_count = 0;           // so many per run
  bool continues = false;           // y holds the sums of an earlier part of k
  const float* next_y = nullptr;    // where the next tile's sums go, fetched on the way
  int64_t next_ldy = 0;
  int64_t next_rows = 0;
};

/// R rows times P panels, V vectors of each panel at a time.
template <int R, int P, int V, class T>
HWY_INLINE void micro_tile(const MicroTile<T>& t, int64_t column) {
  constexpr int64_t N = lanes<float>();
  Vec<float> sum[R][P * V];
  const auto place = [&](int j) { return (j / V) * kNr + column + (j % V) * N; };
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < P * V; ++j) {
      sum[i][j] = t.continues ? load(t.y + i * t.ldy + place(j)) : hn::Zero(Tag<float>());
    }
  }
  const T* b = t.panels + column;
  const float* a = t.x;
  const auto step = [&]() HWY_ATTR {
    // Few rows wait for memory: two pages ahead are fetched while they do.
    if constexpr (R <= kFetchRows) {
      constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T)), kAhead = 128 * kLine;
      for (int p = 0; p < P; ++p) {
        for (int64_t at = 0; at < kNr; at += kLine) __builtin_prefetch(b + p * t.panel_size + at + kAhead);
      }
    }
    Vec<float> w[P * V];
    for (int j = 0; j < P * V; ++j) w[j] = widened(b + (j / V) * t.panel_size + (j % V) * N);
    for (int i = 0; i < R; ++i) {
      const Vec<float> value = broadcast(a[i * kRun]);
      for (int j = 0; j < P * V; ++j) sum[i][j] = hn::MulAdd(value, w[j], sum[i][j]);
    }
    b += kNr;
    ++a;
  };
  int64_t l = t.k;
  const std::byte* next = t.next;
  const int64_t next_count = column == 0 ? t.next_count : 0;
  int64_t fetched = 0;  // rows of next_y
  for (; l >= kRun; l -= kRun) {
    for (int64_t i = 0; i < next_count; ++i, next += t.next_step) {
      __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(next + 64, 0, 2);
    }
    if (fetched < t.next_rows) {
      const float* row = t.next_y + fetched++ * t.next_ldy + column;
      for (int64_t at = 0; at < V * N; at += 16) __builtin_prefetch(row + at, 1, 2);
    }
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRun; ++r) step();
    a += (R - 1) * kRun;
  }
  for (; l > 0; --l) step();
  for (int j = 0; j < P * V; ++j) {
    const int64_t at = place(j);
    const Vec<float> bias = t.bias != nullptr ? load(t.bias + at) : hn::Zero(Tag<float>());
    for (int i = 0; i < R; ++i) {
      store<float>(t.bias != nullptr ? hn::Add(sum[i][j], bias) : sum[i][j], t.y + i * t.ldy + at);
    }
  }
}

/// Panels a tile of R rows takes at once: enough sums to keep the multipliers busy.
constexpr int panels_of(int rows) {
  return lanes<float>() >= 16 ? (rows == 1 ? 4 : rows <= 3 ? 2 : 1) : rows == 1 ? 2 : 1;
}
inline constexpr int64_t kMostPanels = 4;

template <int R, int P, class T>
HWY_NOINLINE void micro_kernel(const MicroTile<T>& t) {
  constexpr int64_t N = lanes<float>();
  constexpr int V = N >= 16 || R > 2 ? 2 : static_cast<int>(std::min<int64_t>(4, kNr / N));
  for (int64_t column = 0; column < kNr; column += V * N) micro_tile<R, P, V>(t, column);
}

template <class T>
using MicroKernel = void (*)(const MicroTile<T>&);
/// The tile of `rows` rows over as many panels as it takes, or over one.
template <class T, int... R>
HWY_INLINE MicroKernel<T> micro_kernel_for(int64_t rows, bool several, std::integer_sequence<int, R...>) {
  static constexpr MicroKernel<T> one[] = {&micro_kernel<R + 1, 1, T>...};
  static constexpr MicroKernel<T> many[] = {&micro_kernel<R + 1, panels_of(R + 1), T>...};
  return (several ? many : one)[rows - 1];
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
