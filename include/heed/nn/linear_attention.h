// Multi-head attention with linear attention (heed/ops/linear_attention.h) instead of the softmax, as a
// part of a layer. Decoding remembers sums over the keys, of one size however many tokens there are.
//
// Taps as in heed/nn/attention.h, without `scores`, as there is no softmax. While decoding, a listener for
// `weights` must listen from the first token on: keys are then kept.
#pragma once

#include <memory>

#include "heed/export.h"
#include "heed/nn/attention.h"

namespace HEED_API heed {

struct LinearSelfAttention {
  /// Projections, heads and norms of queries and keys; all else stays as it is.
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D]; Pass::self determines which keys count, and whether later ones do. With a
  /// state, which only a causal attention has, the T tokens follow those that it has summed.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

}  // namespace heed
