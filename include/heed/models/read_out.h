// ReadOut: the map from the residual stream of a model that predicts tokens to its logits.
#pragma once

#include <optional>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"

namespace HEED_API heed {

/// softcap(output(norm(x) * scale)), as a model's last steps apply it to the output of its last layer.
struct ReadOut {
  std::optional<Norm> norm = {};
  double scale = 1.0;
  Linear output = {};      // [V, D]
  double logit_cap = 0.0;  ///< if > 0
  /// The logits [..., V] of x [..., D].
  Tensor logits(const Tensor& x) const;
};

}  // namespace heed
