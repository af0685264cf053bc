// Activation functions, element by element, on f32 or f64 of any shape; all have gradients.
#pragma once

#include <string_view>

#include "heed/export.h"
#include "heed/kernels/activation.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace HEED_API heed {

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
/// cap * tanh(x / cap), which lies within [-cap, cap]: capped scores and logits (Bello et al. 2016, "Neural
/// combinatorial optimization"; Gemma 2). Throws Error unless cap is above 0.
Tensor softcap(const Tensor& x, double cap);

/// The activation for a name in a config, as in transformers' ACT2FN: gelu or gelu_python; gelu_new,
/// gelu_pytorch_tanh, gelu_fast, gelu_python_tanh or gelu_accurate; silu or swish; linear; sqrtsoftplus; the
/// others by the names above. Throws Error for an unknown name.
Activation activation_named(std::string_view name);
Tensor activate(const Tensor& x, Activation activation);

/// activate(gate) * x in one pass, for gated feed-forward layers (Shazeer, "GLU variants improve
/// transformer": silu gives SwiGLU, gelu GEGLU). gate and x have the same shape and dtype.
Tensor gated(const Tensor& gate, const Tensor& x, Activation activation);
/// The same with activate and a product. This function and all others whose names end in _by_formula are for
/// tests, as explanation, and as a start for a new backend.
Tensor gated_by_formula(const Tensor& gate, const Tensor& x, Activation activation);

// Inverted dropout from a counter-based random stream, so that the mask is not stored and does not depend on
// the order of computation.

/// Each element of x (f32 or f64) is kept with probability 1 - p and divided by 1 - p, else set to 0; p in
/// [0, 1). Element i (row-major) is kept if stream.uniform(i) >= p. Srivastava et al., "Dropout".
Tensor dropout(const Tensor& x, double p, RandomStream stream);

}  // namespace heed
