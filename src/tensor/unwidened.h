// What a tensor that is yet to be widened from 16 bits (Tensor::to_lazy) is made of.
#pragma once

#include "heed/tensor.h"

namespace heed {

/// The numbers of a whole f32 tensor in the bf16 or f16 in which they are stored, contiguous; undefined if
/// they are stored otherwise, or the address of the f32 numbers has been handed out.
Tensor unwidened(const Tensor& tensor);

}  // namespace heed
