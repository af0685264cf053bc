// Matrix multiplication: for double our own blocked product; for float the product of kernels/packed.h where
// there is enough to do, which is faster than oneDNN's with plain operands, and else oneDNN (this is the only
// file that knows it). Matrices of a batch that are too small to occupy every thread are spread over the
// threads instead.
#include "kernels/gemm.h"

#include <dnnl.h>

#include <algorithm>
#include <new>

#include "heed/error.h"
#include "heed/threads.h"
#include "kernels/cpu/gemm_f64.h"
#include "kernels/packed.h"

namespace heed::kernels {
namespace {

/// Multiplications below which one thread is as fast as several.
constexpr std::int64_t kSmall = 1 << 21;

void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
              const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
              std::int64_t ldc) {
  if (alpha == 1 && (beta == 0 || beta == 1) && m * n * k >= kSmall && ordered_product_has_vectors()) {
    OrderedProduct<float> product{.m = m, .n = n, .k = k, .y = c, .ldy = ldc, .accumulate = beta == 1};
    product.x = transpose_a ? Plain<const float>{a, 1, lda} : Plain<const float>{a, lda, 1};
    product.plain = transpose_b ? Plain<const float>{b, ldb, 1} : Plain<const float>{b, 1, ldb};
    return ordered_product(product);
  }
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a,
                                          lda, b, ldb, beta, c, ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  HEED_ASSERT(status == dnnl_success, "dnnl_sgemm refused its arguments");
}

void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
              double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta,
              double* c, std::int64_t ldc) {
  detail::gemm_f64({transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc});
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
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    scale_rows(m, n, beta, c, ldc);
  } else {
    multiply(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}

template <class T>
void gemm_batched(const GemmBatch& batch, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta,
                  T* c, std::int64_t ldc) {
  const std::int64_t work = std::max<std::int64_t>(m * n * k, 1);
  const std::int64_t grain = work >= kSmall ? batch.count + 1 : std::max<std::int64_t>(1, kSmall / 32 / work);
  parallel_for(batch.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      gemm(transpose_a, transpose_b, m, n, k, alpha, a + i * batch.stride_a, lda, b + i * batch.stride_b, ldb,
           beta, c + i * batch.stride_c, ldc);
    }
  });
}

#define HEED_INSTANTIATE(T)                                                                             \
  template void gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t,   \
                     const T*, std::int64_t, T, T*, std::int64_t);                                      \
  template void gemm_batched(const GemmBatch&, bool, bool, std::int64_t, std::int64_t, std::int64_t, T, \
                             const T*, std::int64_t, const T*, std::int64_t, T, T*, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
