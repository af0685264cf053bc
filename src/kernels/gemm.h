// Matrix multiplication, and the bias that usually follows it. Everything is row-major.
#pragma once

#include <cstdint>

#include "heed/dtype.h"

namespace heed::kernels {

/// How a product of f32 matrices is computed: as it is, or with operands rounded to bf16 (bf16_gemm.h).
enum class Precision { exact, bf16 };

/// c = alpha * op(a) op(b) + beta * c, with op(a): [m, k], op(b): [k, n], c: [m, n]; op transposes where
/// asked. lda, ldb, ldc are the distances between stored rows. With beta = 0, c need not be initialised. With
/// k = 0, c = beta * c. `precision` is for float with alpha = 1 and beta = 0 or 1, and has no effect on
/// others.
template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc,
          Precision precision = Precision::exact);

/// c = a op(b) for a b that is stored in bf16: the bits of gemm() with b widened to f32.
void gemm_of_bf16(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                  std::int64_t lda, const bfloat16* b, std::int64_t ldb, float* c, std::int64_t ldc,
                  Precision precision);

/// Distances between consecutive matrices of a batch. Those of a and b may be 0: the matrix is shared.
struct GemmBatch {
  std::int64_t count = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
};
/// gemm on every matrix of the batch, in parallel over the batch when the matrices are small.
template <class T>
void gemm_batched(const GemmBatch& batch, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta,
                  T* c, std::int64_t ldc, Precision precision = Precision::exact);

/// y[r, i] += bias[i]; y: [rows, n].
template <class T>
void add_bias(T* y, const T* bias, std::int64_t rows, std::int64_t n);
/// db[i] = sum_r dy[r, i]; the same for any number of threads.
template <class T>
void bias_gradient(const T* dy, T* db, std::int64_t rows, std::int64_t n);

}  // namespace heed::kernels
