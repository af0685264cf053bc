// Linear maps and lookups for inference, with a matrix in the form in which it is stored (heed/nn/weight.h).
#pragma once

#include "heed/ops/matmul.h"
#include "kernels/matrix.h"

namespace heed {

/// linear() in f32, without gradient. `packed` holds the numbers of the weight where it is not null; else
/// they are those of the weight itself. Throws Error as linear() does.
Tensor stored_linear(const Tensor& x, const Tensor& weight, const kernels::PackedMatrix* packed,
                     const Tensor& bias, Activation activation, WeightLayout layout);

/// embedding() in f32, without gradient, for a table [V, D] of this shape whose rows are those of `rows`.
Tensor stored_embedding(const Shape& table, const kernels::StoredMatrix& rows, const Tensor& ids,
                        double scale);

}  // namespace heed
