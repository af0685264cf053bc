// Rotary positions: turning queries and keys by their places (Su et al., "RoFormer: enhanced transformer with
// rotary position embedding").
#pragma once

#include "heed/tensor.h"

namespace heed {

/// Which elements of a head turn together, for r turned elements: i and i + r/2 (the layout of Hugging Face's
/// LLaMA), or the neighbours 2i and 2i + 1 (the paper's).
enum class RotaryLayout { halves, interleaved };

/// Turns the first r elements of each head of x [B, H, T, d]: with cosines c and sines s of token t, the pair
/// (a, b) becomes (a c - b s, b c + a s). `turns` [T, r] or [B, T, r] holds the r/2 cosines of a token, then
/// its r/2 sines; r is even and at most d, and elements from r on pass unchanged. f32 or f64, both the same;
/// x may have any strides if its last axis is contiguous. The gradient flows to x only. Throws Error when
/// shapes or dtypes do not fit.
Tensor rotary(const Tensor& x, const Tensor& turns, RotaryLayout layout);

/// The same made of slices, products and sums: the oracle and the explanation.
Tensor rotary_by_formula(const Tensor& x, const Tensor& turns, RotaryLayout layout);

}  // namespace heed
