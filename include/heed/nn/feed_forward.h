// The position-wise feed-forward network (Vaswani et al. 2017, section 3.3), plain or gated.
//
// Taps below the part's name: `inner` [B, T, F], what `down` reads, and `out` [B, T, D].
#pragma once

#include <optional>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/nn/part.h"

namespace HEED_API heed {

/// Two linear maps with an activation between them: down(f(up(x))). With a gate, down(f(gate(x)) * up(x))
/// (Shazeer 2020, "GLU variants improve Transformer").
struct FeedForward {
  Linear up;    // [F, D]
  Linear down;  // [D, F]
  Activation activation = Activation::relu;
  double dropout = 0.0;             ///< before `down`
  std::optional<Linear> gate = {};  // [F, D]
  bool fused_gate = false;          ///< `up` is [2F, D]: the gate's rows, then its own
  bool gate_last = false;           ///< the gate's rows of `up` are the second half (Moonshine)
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
};

}  // namespace heed
