// Matrix products: the general batched one, and the linear layer.
#pragma once

#include "heed/ops/activation.h"
#include "heed/tensor.h"

namespace heed {

/// a [..., M, K] times b [..., K, N] gives [..., M, N]; leading axes broadcast. f32 or f64, both the same.
Tensor matmul(const Tensor& a, const Tensor& b);

/// How the weight of a linear layer lies in memory: [out, in], or [in, out] as GPT-2's checkpoints have it.
enum class WeightLayout { out_in, in_out };

/// activation(x W^T + b): x [..., in], weight W [out, in] (or its transpose, by `layout`), bias [out] or
/// undefined, giving [..., out]. The weight may be stored in bf16 or f16 when no gradient is asked for it; it
/// is then widened for the product.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none, WeightLayout layout = WeightLayout::out_in);

}  // namespace heed
