// What an optimizer with master copies needs of its parameters: data in another dtype than the gradient's.
#pragma once

#include "heed/tensor.h"

namespace heed {

/// The dtype in which gradients of a tensor add up: f32 for bf16 and f16, else its own.
DType gradient_dtype(DType dtype);

/// Whether a gradient may have this dtype: that of the tensor, or the one in which gradients add up.
inline bool may_be_gradient(DType tensor, DType gradient) {
  return gradient == tensor || gradient == gradient_dtype(tensor);
}

/// Makes a leaf, and all copies of it, refer to the data of `source` (same shape, of any floating dtype) in
/// the place of its own. Views that were made before keep the earlier data.
void set_data(const Tensor& leaf, const Tensor& source);

}  // namespace heed
