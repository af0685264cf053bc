// A small matrix product on data that lies in cache: the building stone of attention and of the double GEMM.
// Rows of B and C are padded to whole vectors, so there are no column tails; A may be walked in any
// direction, which makes the same code serve A and its transpose.
#if defined(HEED_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TILE_INL_H_
#undef HEED_KERNELS_TILE_INL_H_
#else
#define HEED_KERNELS_TILE_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Element (i, l) of the left operand is data[i * row + l * col].
template <class T>
struct Left {
  const T* data;
  int64_t row;
  int64_t col;
};
/// A row-major matrix whose rows may be read (or written) up to a whole number of vectors.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
};

/// `Height` rows and one or two vectors of columns of C = A B, or C += A B.
template <int Height, bool Two, class T>
HWY_INLINE void tile_block(int64_t k, Left<T> a, Rows<const T> b, Rows<T> c, bool accumulate) {
  constexpr int64_t N = lanes<T>();
  Vec<T> left[Height], right[Height];
  for (int i = 0; i < Height; ++i) {
    left[i] = accumulate ? load(c.data + i * c.stride) : hn::Zero(Tag<T>());
    if (Two) right[i] = accumulate ? load(c.data + i * c.stride + N) : hn::Zero(Tag<T>());
  }
  for (int64_t l = 0; l < k; ++l) {
    const Vec<T> b0 = load(b.data + l * b.stride);
    const Vec<T> b1 = Two ? load(b.data + l * b.stride + N) : b0;
    for (int i = 0; i < Height; ++i) {
      const Vec<T> value = broadcast(a.data[i * a.row + l * a.col]);
      left[i] = hn::MulAdd(value, b0, left[i]);
      if (Two) right[i] = hn::MulAdd(value, b1, right[i]);
    }
  }
  for (int i = 0; i < Height; ++i) {
    store<T>(left[i], c.data + i * c.stride);
    if (Two) store<T>(right[i], c.data + i * c.stride + N);
  }
}

template <int Height, class T>
HWY_INLINE void tile_rows(int64_t n, int64_t k, Left<T> a, Rows<const T> b, Rows<T> c, bool accumulate) {
  constexpr int64_t N = lanes<T>();
  int64_t j = 0;
  for (; j + 2 * N <= n; j += 2 * N) {
    tile_block<Height, true>(k, a, Rows<const T>{b.data + j, b.stride}, Rows<T>{c.data + j, c.stride},
                             accumulate);
  }
  for (; j < n; j += N) {
    tile_block<Height, false>(k, a, Rows<const T>{b.data + j, b.stride}, Rows<T>{c.data + j, c.stride},
                              accumulate);
  }
}

/// C[m, n] = A[m, k] B[k, n], or += ; n is rounded up to whole vectors.
template <class T>
HWY_NOINLINE void tile_multiply(int64_t m, int64_t n, int64_t k, Left<T> a, Rows<const T> b, Rows<T> c,
                                bool accumulate) {
  int64_t i = 0;
  const auto step = [&](auto height) HWY_ATTR {
    tile_rows<height()>(n, k, Left<T>{a.data + i * a.row, a.row, a.col}, b,
                        Rows<T>{c.data + i * c.stride, c.stride}, accumulate);
    i += height();
  };
  while (i + 6 <= m) step(std::integral_constant<int, 6>());
  if (i + 4 <= m) step(std::integral_constant<int, 4>());
  if (i + 2 <= m) step(std::integral_constant<int, 2>());
  if (i < m) step(std::integral_constant<int, 1>());
}

/// to[j, i] = from[i, j] for i < m, j < n; the columns of `to` from m to its stride become 0.
template <class T>
HWY_INLINE void pack_transposed(int64_t m, int64_t n, Rows<const T> from, Rows<T> to) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) to.data[j * to.stride + i] = from.data[i * from.stride + j];
    std::fill(to.data + j * to.stride + m, to.data + (j + 1) * to.stride, T(0));
  }
}

/// to[i, j] = from[i, j] for i < m, j < n; the columns of `to` from n to its stride become 0.
template <class T>
HWY_INLINE void pack_rows(int64_t m, int64_t n, Rows<const T> from, Rows<T> to) {
  for (int64_t i = 0; i < m; ++i) {
    std::copy(from.data + i * from.stride, from.data + i * from.stride + n, to.data + i * to.stride);
    std::fill(to.data + i * to.stride + n, to.data + (i + 1) * to.stride, T(0));
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
