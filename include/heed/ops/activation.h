// Activation functions on f32 or f64, all with gradients.
#pragma once

#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// max(x, 0)
Tensor relu(const Tensor& x);
/// x * Phi(x) with the exact error function (Hendrycks and Gimpel, "Gaussian error linear units").
Tensor gelu(const Tensor& x);
/// The tanh approximation of the same paper: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Tensor gelu_tanh(const Tensor& x);
/// x * sigmoid(x), also called swish.
Tensor silu(const Tensor& x);
Tensor tanh(const Tensor& x);
/// 1 / (1 + exp(-x))
Tensor sigmoid(const Tensor& x);

/// The activations of Hugging Face's configs that have no parameters. Behind those above:
/// quick_gelu x * sigmoid(1.702 x); gelu_10 gelu up to 10; relu2 relu(x)^2; relu6 relu up to 6; leaky_relu
/// with 0.01 x below 0; hardswish x * relu6(x + 3) / 6; mish x * tanh(softplus(x)); laplace the normal
/// distribution of mean sqrt(1/2) and deviation 0.282095 (Ma et al., "Mega"); sqrt_softplus the root of
/// softplus(x) = log(1 + exp(x)).
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

/// The activation a config names, as transformers' ACT2FN does: gelu or gelu_python; gelu_new,
/// gelu_pytorch_tanh, gelu_fast, gelu_python_tanh or gelu_accurate; silu or swish; linear; sqrtsoftplus; the
/// others by their own names. Throws Error for any other.
Activation activation_named(std::string_view name);
Tensor activate(const Tensor& x, Activation activation);

/// activate(gate) * x in one pass, for gated feed-forward layers (Shazeer, "GLU variants improve
/// transformer": silu makes SwiGLU, gelu GEGLU). Both of one shape and type.
Tensor gated(const Tensor& gate, const Tensor& x, Activation activation);

}  // namespace heed
