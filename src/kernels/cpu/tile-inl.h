// A small matrix product on data that lies in cache, and the transposition that prepares its operands: the
// building stones of attention and of the double GEMM. Rows of B and C are padded to whole vectors, so there
// are no column tails; A may lie by rows or by columns. Every element of C is one chain of fused
// multiply-adds over l in order, whatever the shape: what is beside an element never changes it.
#if defined(HEED_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TILE_INL_H_
#undef HEED_KERNELS_TILE_INL_H_
#else
#define HEED_KERNELS_TILE_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Element (i, l) of the left operand is data[i * row + l * col]; row or col is 1.
template <class T>
struct Left {
  const T* data;
  int64_t row;
  int64_t col;
};
/// A row-major matrix whose rows may be read (or written) up to a whole number of vectors.
template <class T>
struct RowMajor {
  T* data;
  int64_t stride;
};

/// Rows of C, and vectors of its columns, at a time: as many sums as the registers hold beside the operands.
inline constexpr int kTileHeight = 6;
inline constexpr int kTileVectors = lanes<float>() >= 16 ? 4 : 2;

/// What becomes of a product: C = A B, C += A B, or C = A B and the largest number of each column.
enum class Into { c, sum, c_and_largest };

/// `Height` rows and `Width` vectors of columns of a product. `Columns`: A's rows are adjacent.
template <Into To, int Height, int Width, bool Columns, class T>
HWY_INLINE void tile_block(int64_t k, Left<T> a, RowMajor<const T> b, RowMajor<T> c, T* largest) {
  constexpr int64_t N = lanes<T>();
  Vec<T> sum[Height][Width];
  HWY_UNROLL(16)
  for (int i = 0; i < Height; ++i) {
    HWY_UNROLL(16)
    for (int w = 0; w < Width; ++w) {
      sum[i][w] = To == Into::sum ? load(c.data + i * c.stride + w * N) : hn::Zero(Tag<T>());
    }
  }
  // A pointer for three rows of A: an address can hold a base and once or twice a stride.
  constexpr int kPointers = Columns ? 1 : (Height + 2) / 3;
  const T* from[kPointers];
  for (int g = 0; g < kPointers; ++g) from[g] = a.data + 3 * g * a.row;
  const T* right = b.data;
  for (int64_t l = 0; l < k; ++l) {
    Vec<T> row[Width];
    HWY_UNROLL(16)
    for (int w = 0; w < Width; ++w) row[w] = load(right + w * N);
    right += b.stride;
    HWY_UNROLL(16)
    for (int i = 0; i < Height; ++i) {
      const Vec<T> value = broadcast(Columns ? from[0][i] : from[i / 3][i % 3 * a.row]);
      HWY_UNROLL(16)
      for (int w = 0; w < Width; ++w) sum[i][w] = hn::MulAdd(value, row[w], sum[i][w]);
    }
    for (int g = 0; g < kPointers; ++g) from[g] += Columns ? a.col : 1;
  }
  HWY_UNROLL(16)
  for (int i = 0; i < Height; ++i) {
    HWY_UNROLL(16)
    for (int w = 0; w < Width; ++w) store<T>(sum[i][w], c.data + i * c.stride + w * N);
  }
  if constexpr (To == Into::c_and_largest) {
    HWY_UNROLL(16)
    for (int w = 0; w < Width; ++w) {
      Vec<T> most = load(largest + w * N);
      HWY_UNROLL(16)
      for (int i = 0; i < Height; ++i) most = hn::Max(most, sum[i][w]);
      store<T>(most, largest + w * N);
    }
  }
}

template <Into To, int Height, bool Columns, class T>
HWY_INLINE void tile_rows(int64_t n, int64_t k, Left<T> a, RowMajor<const T> b, RowMajor<T> c, T* largest) {
  constexpr int64_t N = lanes<T>();
  const auto step = [&](auto width) HWY_ATTR {
    tile_block<To, Height, width(), Columns>(k, a, b, c, largest);
    b.data += width() * N;
    c.data += width() * N;
    if constexpr (To == Into::c_and_largest) largest += width() * N;
    n -= width() * N;
  };
  if constexpr (kTileVectors == 4) {
    // Five are three and two: a single vector is too few sums to hide a multiply-add's latency.
    while (n > 5 * N || (n > 3 * N && n <= 4 * N)) step(std::integral_constant<int, 4>());
    if (n > 2 * N) step(std::integral_constant<int, 3>());
  }
  while (n > N) step(std::integral_constant<int, 2>());
  if (n > 0) step(std::integral_constant<int, 1>());
}

/// The product of A[m, k] and B[k, n] into C[m, n]; n is rounded up to whole vectors. `Columns`: a.row is 1,
/// else a.col is. `largest` [n] holds numbers to start from when the largest of each column are asked for.
template <Into To, bool Columns, class T>
HWY_NOINLINE void tile_multiply(int64_t m, int64_t n, int64_t k, Left<T> a, RowMajor<const T> b,
                                RowMajor<T> c, T* largest = nullptr) {
  int64_t i = 0;
  // With a single vector of columns, more rows for as many sums: few queries with many keys.
  constexpr int kTall = 2 * kTileHeight;
  for (; n <= lanes<T>() && i + kTall <= m; i += kTall) {
    tile_block<To, kTall, 1, Columns>(k, Left<T>{a.data + i * a.row, a.row, a.col}, b,
                                      RowMajor<T>{c.data + i * c.stride, c.stride}, largest);
  }
  const auto step = [&](auto height) HWY_ATTR {
    tile_rows<To, height(), Columns>(n, k, Left<T>{a.data + i * a.row, a.row, a.col}, b,
                                     RowMajor<T>{c.data + i * c.stride, c.stride}, largest);
    i += height();
  };
  // Eight are twice four: two rows are too few sums to hide a multiply-add's latency.
  while (i + kTileHeight <= m && i + 8 != m) step(std::integral_constant<int, kTileHeight>());
  while (i + 4 <= m) step(std::integral_constant<int, 4>());
  if (i + 2 <= m) step(std::integral_constant<int, 2>());
  if (i < m) step(std::integral_constant<int, 1>());
}

/// The products take long to compile: kernels/cpu/tile.cpp holds them for every other file.
#define HEED_TILE_PRODUCT(prefix, to, columns, T)                                                           \
  prefix template void tile_multiply<to, columns, T>(int64_t, int64_t, int64_t, Left<T>, RowMajor<const T>, \
                                                     RowMajor<T>, T*)
#define HEED_TILE_PRODUCTS(prefix, T)             \
  HEED_TILE_PRODUCT(prefix, Into::c, false, T);   \
  HEED_TILE_PRODUCT(prefix, Into::c, true, T);    \
  HEED_TILE_PRODUCT(prefix, Into::sum, false, T); \
  HEED_TILE_PRODUCT(prefix, Into::sum, true, T);  \
  HEED_TILE_PRODUCT(prefix, Into::c_and_largest, false, T)
HEED_TILE_PRODUCTS(extern, float);
HEED_TILE_PRODUCTS(extern, double);

/// What row j of a transposed matrix is multiplied by: data[j * step].
template <class T>
struct Factors {
  const T* data;
  int64_t step;
};
template <class T>
inline constexpr T kOne = 1;

/// to[j, i] = from[i, j] f[j] for i < m, j < n, a number at a time.
template <class T>
HWY_INLINE void transpose_plainly(int64_t m, int64_t n, RowMajor<const T> from, RowMajor<T> to,
                                  Factors<T> f) {
  for (int64_t j = 0; j < n; ++j) {
    const T factor = f.data[j * f.step];
    for (int64_t i = 0; i < m; ++i) to.data[j * to.stride + i] = from.data[i * from.stride + j] * factor;
  }
}

#if HWY_TARGET != HWY_SCALAR
/// Four numbers of each fourth row: block b of the vector holds those at p + min(first + 4 b, last) * stride.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* p, int64_t stride, int64_t first, int64_t last) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::LoadU(d, p + std::min(first, last) * stride);
  } else {
    const hn::Half<D> half;
    constexpr auto kRows = static_cast<int64_t>(hn::MaxLanes(hn::Half<D>()));
    return hn::Combine(d, load_blocks(half, p, stride, first + kRows, last),
                       load_blocks(half, p, stride, first, last));
  }
}

/// to[j, i] = from[i, j] f[j] for four j and a vector of i, by blocks of 4 x 4; 0 for i >= count.
template <bool Whole>
HWY_INLINE void transpose_four(int64_t count, RowMajor<const float> from, RowMajor<float> to,
                               Factors<float> f) {
  const Tag<float> d;
  const hn::Repartition<double, Tag<float>> pairs;
  // What is certain to be a whole vector needs no comparisons.
  const int64_t last = Whole ? lanes<float>() - 1 : count - 1;
  const auto row = [&](int64_t i) HWY_ATTR { return load_blocks(d, from.data, from.stride, i, last); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  const auto put = [&](int64_t j, auto pair) HWY_ATTR {
    const auto column = hn::Mul(hn::BitCast(d, pair), broadcast(f.data[j * f.step]));
    const auto present = hn::FirstN(d, static_cast<std::size_t>(count));
    store<float>(Whole ? column : hn::IfThenElseZero(present, column), to.data + j * to.stride);
  };
  put(0, hn::InterleaveLower(pairs, low01, low23));
  put(1, hn::InterleaveUpper(pairs, low01, low23));
  put(2, hn::InterleaveLower(pairs, high01, high23));
  put(3, hn::InterleaveUpper(pairs, high01, high23));
}

/// All j < n of one vector of rows.
template <bool Whole>
HWY_INLINE void transpose_strip(int64_t count, int64_t n, RowMajor<const float> from, RowMajor<float> to,
                                Factors<float> f) {
  constexpr int64_t N = lanes<float>();
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    if (Whole && j % 16 == 0) {  // a cache line of each row of the next strip: their order is no plain stream
      for (int64_t i = 0; i < N; ++i) hwy::Prefetch(from.data + (N + i) * from.stride + j);
    }
    transpose_four<Whole>(count, {from.data + j, from.stride}, {to.data + j * to.stride, to.stride},
                          {f.data + j * f.step, f.step});
  }
  transpose_plainly<float>(count, n - j, {from.data + j, from.stride}, {to.data + j * to.stride, to.stride},
                           {f.data + j * f.step, f.step});
  for (; j < n; ++j) std::fill(to.data + j * to.stride + count, to.data + j * to.stride + N, 0.0f);
}
#endif

/// to[j, i] = from[i, j] f[j] for i < m, j < n; the columns of `to` from m to `width` become 0.
template <class T>
HWY_NOINLINE void pack_transposed(int64_t m, int64_t n, RowMajor<const T> from, RowMajor<T> to, int64_t width,
                                  Factors<T> f = {&kOne<T>, 0}) {
  int64_t done = 0;  // columns of `to`
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<T, float>) {
    constexpr int64_t N = lanes<float>();
    for (; done + N <= m; done += N) {
      transpose_strip<true>(N, n, {from.data + done * from.stride, from.stride}, {to.data + done, to.stride},
                            f);
    }
    if (done < m && done + N <= width) {
      transpose_strip<false>(m - done, n, {from.data + done * from.stride, from.stride},
                             {to.data + done, to.stride}, f);
      done += N;
    }
  }
#endif
  if (done < m) {
    transpose_plainly<T>(m - done, n, {from.data + done * from.stride, from.stride},
                         {to.data + done, to.stride}, f);
    done = m;
  }
  if (done >= width) return;
  for (int64_t j = 0; j < n; ++j)
    std::fill(to.data + j * to.stride + done, to.data + j * to.stride + width, T(0));
}

/// to[i, j] = from[i, j] for i < m, j < n; the columns of `to` from n to its stride become 0.
template <class T>
HWY_INLINE void pack_rows(int64_t m, int64_t n, RowMajor<const T> from, RowMajor<T> to) {
  for (int64_t i = 0; i < m; ++i) {
    std::copy(from.data + i * from.stride, from.data + i * from.stride + n, to.data + i * to.stride);
    std::fill(to.data + i * to.stride + n, to.data + (i + 1) * to.stride, T(0));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
