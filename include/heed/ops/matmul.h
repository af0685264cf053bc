// Matrix products: the general batched one, and the linear layer.
#pragma once

#include "heed/ops/activation.h"
#include "heed/tensor.h"

namespace heed {

/// a [..., M, K] times b [..., K, N] gives [..., M, N]; leading axes broadcast. f32 or f64, both the same.
Tensor matmul(const Tensor& a, const Tensor& b);

/// activation(x W^T + b): x [..., in], weight [out, in], bias [out] or undefined, giving [..., out]. The
/// weight may be stored in bf16 or f16 when no gradient is asked for it; it is then widened for the product.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace heed
