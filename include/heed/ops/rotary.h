// Rotary position embedding: rotates queries and keys by their positions (Su et al., "RoFormer: enhanced
// transformer with rotary position embedding").
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Which of the r rotary dims form a pair: i and i + r/2 (Hugging Face's LLaMA), or 2i and 2i + 1 (the
/// paper).
enum class RotaryLayout { halves, interleaved };

/// Rotates the first r dims of each head of x [B, H, T, d]: with cosine c and sine s, the pair (a, b) becomes
/// (a c - b s, b c + a s). `cos_sin` [T, r] or [B, T, r] has the r/2 cosines of a token, then its r/2
/// sines; r is even and at most d; dims from r on are unchanged. f32 or f64, both of the same dtype; x may
/// have any strides if its last axis is contiguous. The gradient flows to x only. Throws Error when shapes or
/// dtypes do not match.
Tensor rotary(const Tensor& x, const Tensor& cos_sin, RotaryLayout layout);

/// The same with slices, products and sums: for tests and as explanation.
Tensor rotary_by_formula(const Tensor& x, const Tensor& cos_sin, RotaryLayout layout);

}  // namespace heed
