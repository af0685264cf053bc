// What norms are computed of, for those that wait until they are read.
#pragma once

#include "heed/tensor.h"

namespace heed {

/// An undefined residual or bias is absent; RMS norm has no mean.
struct NormOperands {
  const char* name;
  Tensor x, residual, weight, bias;
  double eps;
  bool centered;      // layer norm, else RMS norm
  double offset = 0;  // added to the weight
};

/// layer_norm, add_layer_norm, rms_norm or add_rms_norm. Of many rows in f32, and without a gradient, it is
/// computed when it is read (ops/computed_rows.h). An x that nobody else has is then computed with it, or
/// leaves its memory to the result.
Tensor norm_when_read(NormOperands given);

}  // namespace heed
