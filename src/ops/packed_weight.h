// Weights kept packed for products (kernels/packed.h) instead of plainly, for as long as nobody asks for
// their address: a model loaded for inference holds one copy of each.
#pragma once

#include <memory>

#include "heed/ops/matmul.h"

namespace heed {

/// The packed form of a whole weight matrix, W [n, k] of some layout.
struct PackedWeight : Buffer::Form {
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = DType::f32;
  WeightLayout layout = WeightLayout::out_in;
  std::shared_ptr<Buffer> panels;
  void write(std::byte* to) const override;
};

/// Whether the tensor is all of a loaded one whose address nobody has.
bool is_movable(const Tensor& weight);

/// The weight's packed form, which it takes on here if it has not yet. Null when its numbers must stay where
/// they are: it was not loaded from a file, it is a part of something, or its address is known.
std::shared_ptr<const PackedWeight> packed_weight(const Tensor& weight, WeightLayout layout);

}  // namespace heed
