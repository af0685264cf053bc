// The double-precision matrix product behind gemm<double>. It serves gradient checks: clear, and fast enough.
#pragma once

#include <cstdint>

namespace heed::kernels::detail {

/// Arguments of gemm (kernels/gemm.h), k > 0.
struct GemmF64 {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  double alpha;
  const double* a;
  std::int64_t lda;
  const double* b;
  std::int64_t ldb;
  double beta;
  double* c;
  std::int64_t ldc;
};
void gemm_f64(const GemmF64& args);

}  // namespace heed::kernels::detail
