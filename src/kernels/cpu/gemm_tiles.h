// The matrix product behind gemm where that of kernels/invariant_gemm.h does not serve: in double precision,
// which is for gradient checks, and on processors without vectors. Clear, and fast enough.
#pragma once

#include <cstdint>

namespace heed::kernels::detail {

/// Arguments of gemm (kernels/gemm.h), k > 0.
template <class T>
struct GemmTiles {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  T alpha;
  const T* a;
  std::int64_t lda;
  const T* b;
  std::int64_t ldb;
  T beta;
  T* c;
  std::int64_t ldc;
};
template <class T>
void gemm_tiles(const GemmTiles<T>& args);

}  // namespace heed::kernels::detail
