// Inverted dropout from a counter-based random stream, so that the mask is not stored and does not depend on
// the order of computation.
#pragma once

#include "heed/export.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Each element of x (f32 or f64) is kept with probability 1 - p and divided by 1 - p, else set to 0; p in
/// [0, 1). Element i (row-major) is kept if stream.uniform(i) >= p. Srivastava et al., "Dropout".
Tensor dropout(const Tensor& x, double p, RandomStream stream);

}  // namespace heed
