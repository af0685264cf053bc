// The products of a recorded step with a weight, which may be stored in bf16 while everything else is f32.
#pragma once

#include <type_traits>

#include "heed/tensor.h"
#include "kernels/gemm.h"

namespace heed {

/// Whether products of f32 take the numbers of a weight as they are, without a copy in f32.
inline bool is_read_in_place(const Tensor& weight, DType dtype) {
  return weight.dtype() == dtype || (weight.dtype() == DType::bf16 && dtype == DType::f32);
}

/// y = x op(weight): x [m, k], weight contiguous, of T or (T float) bf16, y [m, n]; the rows of x and y are
/// dense.
template <class T>
void multiply_with_weight(bool transpose_weight, std::int64_t m, std::int64_t n, std::int64_t k, const T* x,
                          const Tensor& weight, T* y, kernels::Precision precision) {
  const std::int64_t columns = weight.size(1);
  if constexpr (std::is_same_v<T, float>) {
    if (weight.dtype() == DType::bf16)
      return kernels::gemm_of_bf16(transpose_weight, m, n, k, x, k, weight.data<bfloat16>(), columns, y, n,
                                   precision);
  }
  kernels::gemm<T>(false, transpose_weight, m, n, k, T{1}, x, k, weight.data<T>(), columns, T{0}, y, n,
                   precision);
}

}  // namespace heed
