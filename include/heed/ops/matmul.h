// Matrix products: batched matmul, and the linear layer.
#pragma once

#include "heed/export.h"
#include "heed/ops/activation.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Mixed precision: while an object of this class exists on this thread, matrix products of f32 tensors that
/// record a gradient (matmul, linear, the projection of linear_cross_entropy), and those of their backward
/// functions, round their operands to bf16 and add up in f32. The weights themselves stay in f32. Products
/// that record nothing are not changed. This is faster only on processors with AMX; elsewhere the rounding is
/// the same. Threads: each has its own.
class MixedPrecision {
 public:
  MixedPrecision();
  ~MixedPrecision();
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;

 private:
  bool before_;
};

/// a [..., M, K] times b [..., K, N] gives [..., M, N]; leading axes broadcast. f32 or f64, both of the same
/// dtype.
Tensor matmul(const Tensor& a, const Tensor& b);

/// Layout of a linear layer's weight: [out, in], or [in, out] as in GPT-2's checkpoints.
enum class WeightLayout { out_in, in_out };

/// activation(x W^T + b): x [..., in], weight W [out, in] (or its transpose, by `layout`), bias [out] or
/// undefined, result [..., out]. The weight may be bf16 or f16, the numbers that a product in f32 then sees;
/// its gradient is f32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none, WeightLayout layout = WeightLayout::out_in);
/// The same with matmul, a sum and activate; the weight has the dtype of x.
Tensor linear_by_formula(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                         Activation activation = Activation::none,
                         WeightLayout layout = WeightLayout::out_in);

}  // namespace heed
