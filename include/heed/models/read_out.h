// ReadOut: the map from the residual stream of a model that predicts tokens to its logits.
#pragma once

#include <optional>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"

namespace HEED_API heed {

/// A transform between the last norm and the output map: norm(activation(dense(x))), as in BERT's head. The
/// identity without `dense`.
struct OutputTransform {
  std::optional<Linear> dense = {};
  Activation activation = Activation::none;
  std::optional<Norm> norm = {};
  Tensor operator()(const Tensor& x) const;
};

/// softcap(output(transform(norm(x) * scale))), applied to the output of a model's last layer.
struct ReadOut {
  std::optional<Norm> norm = {};
  double scale = 1.0;
  OutputTransform transform = {};
  Linear output = {};      // [V, D]
  double logit_cap = 0.0;  ///< if > 0
  /// The logits [..., V] of x [..., D].
  Tensor logits(const Tensor& x) const;
  /// The logits of some tokens only, [..., n] for ids i64 [n], at the cost of n rows of the output map.
  Tensor logits(const Tensor& x, const Tensor& ids) const;

 private:
  Tensor output_input(const Tensor& x) const;
};

}  // namespace heed
