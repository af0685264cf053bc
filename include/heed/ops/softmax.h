// Softmax and its logarithm, along an axis that the caller names: softmax over the wrong axis is a classic
// bug, so there is no default.
#pragma once

#include "heed/tensor.h"

namespace heed {

/// exp(x - max) / sum exp(x - max) along `axis`. A slice that is -inf throughout gives zeros, never NaN.
Tensor softmax(const Tensor& x, int axis);
/// x - max - log(sum exp(x - max)) along `axis`.
Tensor log_softmax(const Tensor& x, int axis);

}  // namespace heed
