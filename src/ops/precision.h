// The precision of products that record a gradient, and of those of their backward functions.
#pragma once

#include "kernels/gemm.h"

namespace heed {

/// bf16 while a MixedPrecision exists on this thread (heed/ops/matmul.h).
kernels::Precision recording_precision();

}  // namespace heed
