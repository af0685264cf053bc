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

/// Whether int8_gemm takes a matrix: in blocks, whose codes are integers or name integers.
bool takes_int8(const PackedMatrix& w);
/// Whether this processor has VNNI's instructions, which multiply and add four bytes, for vectors as long as
/// the kernels'.
bool has_vnni();
/// invariant_gemm with x rounded to int8, by those instructions or without.
void int8_gemm(const InvariantGemm& args, bool vnni);

}  // namespace heed::kernels::detail
