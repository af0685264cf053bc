// Matrix multiplication: for float the batch-invariant product, so that the sums of a training step have the
// order of inference, and for double a blocked product, clear and fast enough for gradient checks, which also
// serves processors without vectors. Matrices of a batch that are too small to occupy every thread are spread
// over the threads instead.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <type_traits>

#include "heed/error.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/tile-inl.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

// The tile products of tile-inl.h, which take long to compile, for attention too.
HEED_TILE_PRODUCTS(, float);
HEED_TILE_PRODUCTS(, double);

inline constexpr int64_t kHeight = 96, kWidth = 64, kDepth = 128;

template <class T>
const T* element(const StridedMatrix& m, int64_t i, int64_t l) {
  return static_cast<const T*>(m.data) + i * m.row + l * m.column;
}

/// panel[l, j] = b[first_k + l, first_n + j], rows of kWidth.
template <class T>
HWY_INLINE void pack_panel(const Gemm<T>& g, int64_t first_k, int64_t depth, int64_t first_n, int64_t width,
                           T* panel) {
  const T* corner = element<T>(g.b, first_k, first_n);
  if (g.b.column != 1) {
    pack_transposed<T>(width, depth, {corner, g.b.column}, {panel, kWidth}, kWidth);
  } else {
    pack_rows<T>(depth, width, {corner, g.b.row}, {panel, kWidth});
  }
}

template <class T>
HWY_INLINE void multiply_block(const Gemm<T>& g, int64_t i, int64_t j, T* panel, T* block) {
  const int64_t height = std::min(kHeight, g.m - i), width = std::min(kWidth, g.n - j);
  for (int64_t l = 0; l < g.k; l += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - l);
    pack_panel(g, l, depth, j, width, panel);
    const auto multiply = [&](auto columns) {
      const Left<T> a{element<T>(g.a, i, l), g.a.row, g.a.column};
      const RowMajor<const T> b{panel, kWidth};
      const RowMajor<T> c{block, kWidth};
      if (l == 0) {
        tile_multiply<Into::c, columns()>(height, width, depth, a, b, c);
      } else {
        tile_multiply<Into::sum, columns()>(height, width, depth, a, b, c);
      }
    };
    if (g.a.column != 1) {
      multiply(std::true_type());
    } else {
      multiply(std::false_type());
    }
  }
  for (int64_t r = 0; r < height; ++r) {
    T* c = g.c + (i + r) * g.ldc + j;
    for (int64_t s = 0; s < width; ++s) {
      const T product = g.alpha * block[r * kWidth + s];
      c[s] = g.beta == 0 ? product : g.beta * c[s] + product;
    }
  }
}

/// A thread owns blocks of c; for each it packs panels of b and runs the tile product on them. The order of
/// additions depends on k alone.
template <class T>
void gemm_blocks(const Gemm<T>& g) {
  const int64_t rows = (g.m + kHeight - 1) / kHeight, columns = (g.n + kWidth - 1) / kWidth;
  parallel_for(rows * columns, row_grain(kHeight * kWidth), [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<T> panel(kDepth * kWidth), block(kHeight * kWidth);
    for (int64_t task = begin; task < end; ++task) {
      multiply_block(g, task / columns * kHeight, task % columns * kWidth, panel.data(), block.data());
    }
  });
}

template <class T>
void add_bias(T* y, const T* bias, int64_t rows, int64_t n) {
  parallel_for(rows, row_grain(n), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      T* row = y + r * n;
      map_range<T>(
          0, n, row, [](auto v, auto b) HWY_ATTR { return hn::Add(v, b); }, static_cast<const T*>(row), bias);
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(gemm_blocks);
HEED_EXPORT(add_bias);

namespace {

/// Multiplications below which one thread is as fast as several.
constexpr std::int64_t kSmall = 1 << 21;

// Where the product of vectors, or that of bf16, serves.
bool multiplies_fast(const Gemm<float>& g) {
  const bool stored = g.b.dtype == DType::bf16;
  const bool plain = g.alpha == 1 && (g.beta == 0 || g.beta == 1);
  HEED_ASSERT(plain || !stored, "a scaled product with a matrix in bf16");
  return plain && (stored || g.precision == Precision::bf16 || detail::invariant_gemm_has_vectors());
}

void multiply_fast(const Gemm<float>& g) {
  const bool accumulate = g.beta == 1;
  if (g.precision == Precision::bf16)
    return bf16_gemm({g.m, g.n, g.k, g.a, g.b.transposed(), g.c, g.ldc, accumulate});
  invariant_gemm({.m = g.m,
                  .n = g.n,
                  .k = g.k,
                  .x = g.a,
                  .w = {g.b.transposed()},
                  .y = g.c,
                  .ldy = g.ldc,
                  .accumulate = accumulate});
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      T* row = g.c + i * g.ldc;
      for (std::int64_t j = 0; j < g.n; ++j) row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
    }
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (multiplies_fast(g)) return multiply_fast(g);
  }
  HEED_DISPATCH(gemm_blocks, T)(g);
}

template <class T>
void gemm_batched(const GemmBatch& batch, const Gemm<T>& first) {
  const std::int64_t work = std::max<std::int64_t>(first.m * first.n * first.k, 1);
  const std::int64_t grain = work >= kSmall ? batch.count + 1 : std::max<std::int64_t>(1, kSmall / 32 / work);
  parallel_for(batch.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Gemm<T> one = first;
      one.a.data = static_cast<const T*>(first.a.data) + i * batch.stride_a;
      one.b.data = static_cast<const T*>(first.b.data) + i * batch.stride_b;
      one.c = first.c + i * batch.stride_c;
      gemm(one);
    }
  });
}

template <class T>
void add_bias(T* y, const T* bias, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(add_bias, T)(y, bias, rows, n);
}
template <class T>
void bias_gradient(const T* dy, T* db, std::int64_t rows, std::int64_t n) {
  sum(dy, db, {1, rows, n});
}

#define HEED_INSTANTIATE(T)                                         \
  template void gemm(const Gemm<T>&);                               \
  template void gemm_batched(const GemmBatch&, const Gemm<T>&);     \
  template void add_bias(T*, const T*, std::int64_t, std::int64_t); \
  template void bias_gradient(const T*, T*, std::int64_t, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
