// Inverted dropout from a counter-based stream, so that the mask needs no memory and no order.
#pragma once

#include "heed/random.h"
#include "heed/tensor.h"

namespace heed {

/// Each element of x is kept with probability 1 - p and divided by it, else 0; p in [0, 1). Element i
/// (row-major) is kept when stream.uniform(i) >= p. Srivastava et al., "Dropout".
Tensor dropout(const Tensor& x, double p, RandomStream stream);

}  // namespace heed
