// Softplus, of which the losses of logits are made, for modules inside the library.
#pragma once

#include "heed/ops/elementwise.h"

namespace heed {

/// max(x, 0) = (x + |x|) / 2. Its gradient at 0 is 1/2, so that softplus has its own there.
inline Tensor positive_part(const Tensor& x) { return (x + abs(x)) * 0.5; }

/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which overflows nowhere.
inline Tensor softplus(const Tensor& x) { return positive_part(x) + log(exp(neg(abs(x))) + 1.0); }

}  // namespace heed
