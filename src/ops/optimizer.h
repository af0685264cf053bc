// One step of an optimizer, which writes to its operands.
#pragma once

#include "heed/tensor.h"
#include "kernels/optimizer.h"

namespace heed {

using AdamWStep = kernels::AdamW;

/// Updates weights and the moments m and v in place (kernels/optimizer.h). All contiguous, of one size and
/// one dtype, f32 or f64.
void adamw_step(const Tensor& weights, const Tensor& gradient, const Tensor& m, const Tensor& v,
                const AdamWStep& settings);

}  // namespace heed
