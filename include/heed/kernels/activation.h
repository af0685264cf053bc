// The activation functions as an enumeration, for configs, operations and kernels.
#pragma once

#include "heed/export.h"

namespace HEED_API heed {

/// The activations in Hugging Face configs that have no parameters. relu, gelu, gelu_tanh, silu, tanh and
/// sigmoid are as in heed/ops/activation.h; quick_gelu: x * sigmoid(1.702 x); gelu_10: min(gelu(x), 10);
/// relu2: relu(x)^2; relu6: min(relu(x), 6); leaky_relu: x, or 0.01 x below 0; hardswish: x * relu6(x + 3) /
/// 6; mish: x * tanh(softplus(x)); laplace: the cumulative normal distribution of mean sqrt(1/2) and
/// deviation 0.282095 (Ma et al., "Mega"); sqrt_softplus: sqrt(softplus(x)), with softplus(x) = log(1 +
/// exp(x)).
enum class Activation {
  none,
  relu,
  gelu,
  gelu_tanh,
  silu,
  tanh,
  sigmoid,
  quick_gelu,
  gelu_10,
  relu2,
  relu6,
  leaky_relu,
  hardswish,
  mish,
  laplace,
  sqrt_softplus
};

}  // namespace heed
