// The matrix product of mixed-precision training: operands rounded to bf16, sums in f32 (Micikevicius et al.
// 2018, "Mixed precision training"; Kalamkar et al. 2019, "A study of bfloat16 for deep learning training").
#pragma once

#include <cstdint>

#include "heed/dtype.h"

namespace heed::kernels {

/// y[i, j] = (accumulate ? y[i, j] : 0) + sum_l bf16(x[i, l]) bf16(w[j, l]): x [m, k], w [n, k], y [m, n].
/// Element (i, l) of x is x[i * x_row + l * x_column], and likewise of w; one of the two distances is 1.
/// w is f32, or bf16 already. m, n and k are at least 1.
struct Bf16Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* x = nullptr;
  std::int64_t x_row = 0;
  std::int64_t x_column = 1;
  const void* w = nullptr;
  std::int64_t w_row = 0;
  std::int64_t w_column = 1;
  float* y = nullptr;
  std::int64_t ldy = 0;
  bool accumulate = false;
  DType w_dtype = DType::f32;
};

/// The formula above, rounding to nearest, ties to even. The order of the sums does not depend on the number
/// of threads; it may depend on the processor, and so may whether denormal numbers count as 0.
void bf16_gemm(const Bf16Gemm& args);

/// Whether this processor multiplies bf16 faster than f32; elsewhere bf16_gemm only rounds the operands.
bool bf16_gemm_is_fast();

}  // namespace heed::kernels
