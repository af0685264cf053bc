// The ways in which this processor may compute a product of f32 matrices.
#pragma once

#include "kernels/gemm.h"

namespace heed::kernels::detail {

/// bf16_gemm on AMX's tiles, which take denormal numbers as 0; only where bf16_gemm_is_fast.
void bf16_gemm_amx(const Bf16Gemm& args);
/// bf16_gemm by rounding the operands and invariant_gemm, on any processor.
void bf16_gemm_rounded(const Bf16Gemm& args);
/// Whether this processor has vectors for invariant_gemm; without them it is slow.
bool invariant_gemm_has_vectors();

}  // namespace heed::kernels::detail
