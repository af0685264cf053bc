// Matrix multiplication: for float the product of kernels/invariant_gemm.h, so that the sums of a training
// step have the order of inference, and for double a blocked product. Matrices of a batch that are too small
// to occupy every thread are spread over the threads instead.
#include "kernels/gemm.h"

#include <algorithm>
#include <type_traits>

#include "heed/threads.h"
#include "kernels/bf16_gemm.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/invariant_gemm.h"

namespace heed::kernels {
namespace {

/// Multiplications below which one thread is as fast as several.
constexpr std::int64_t kSmall = 1 << 21;

template <class T>
void multiply(const detail::GemmTiles<T>& g, Precision precision) {
  if constexpr (std::is_same_v<T, float>) {
    const bool plain = g.alpha == 1 && (g.beta == 0 || g.beta == 1);
    if (plain && precision == Precision::bf16) {
      return bf16_gemm({g.m, g.n, g.k, g.a, g.transpose_a ? 1 : g.lda, g.transpose_a ? g.lda : 1, g.b,
                        g.transpose_b ? g.ldb : 1, g.transpose_b ? 1 : g.ldb, g.c, g.ldc, g.beta == 1});
    }
    if (plain && detail::invariant_gemm_has_vectors()) {
      InvariantGemm args{.m = g.m, .n = g.n, .k = g.k, .y = g.c, .ldy = g.ldc, .accumulate = g.beta == 1};
      args.x = {g.a, DType::f32, g.transpose_a ? 1 : g.lda, g.transpose_a ? g.lda : 1};
      args.w.strided = {g.b, DType::f32, g.transpose_b ? g.ldb : 1, g.transpose_b ? 1 : g.ldb};
      return invariant_gemm(args);
    }
  }
  detail::gemm_tiles(g);
}

template <class T>
void scale_rows(std::int64_t m, std::int64_t n, T beta, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == T(0) ? T(0) : beta * c[i * ldc + j];
  }
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc,
          Precision precision) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    scale_rows(m, n, beta, c, ldc);
  } else {
    multiply<T>({transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, precision);
  }
}

void gemm_of_bf16(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                  std::int64_t lda, const bfloat16* b, std::int64_t ldb, float* c, std::int64_t ldc,
                  Precision precision) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_rows(m, n, 0.0F, c, ldc);
  const std::int64_t b_row = transpose_b ? ldb : 1, b_column = transpose_b ? 1 : ldb;
  if (precision == Precision::bf16)
    return bf16_gemm({m, n, k, a, lda, 1, b, b_row, b_column, c, ldc, false, DType::bf16});
  InvariantGemm args{.m = m, .n = n, .k = k, .y = c, .ldy = ldc};
  args.x = {a, DType::f32, lda, 1};
  args.w.strided = {b, DType::bf16, b_row, b_column};
  invariant_gemm(args);
}

template <class T>
void gemm_batched(const GemmBatch& batch, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta,
                  T* c, std::int64_t ldc, Precision precision) {
  const std::int64_t work = std::max<std::int64_t>(m * n * k, 1);
  const std::int64_t grain = work >= kSmall ? batch.count + 1 : std::max<std::int64_t>(1, kSmall / 32 / work);
  parallel_for(batch.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      gemm(transpose_a, transpose_b, m, n, k, alpha, a + i * batch.stride_a, lda, b + i * batch.stride_b, ldb,
           beta, c + i * batch.stride_c, ldc, precision);
    }
  });
}

#define HEED_INSTANTIATE(T)                                                                             \
  template void gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t,   \
                     const T*, std::int64_t, T, T*, std::int64_t, Precision);                           \
  template void gemm_batched(const GemmBatch&, bool, bool, std::int64_t, std::int64_t, std::int64_t, T, \
                             const T*, std::int64_t, const T*, std::int64_t, T, T*, std::int64_t,       \
                             Precision);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
