// How assembled models do Model::steer().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/nn/stack.h"

namespace heed {

/// Adds `vector` to the steering vector of a layer of the stack of that name, among those that a model has.
/// Throws Error for a stack, a layer or a width that is not there.
void steer_stack(const std::vector<Stack*>& stacks, const std::string& name, std::int64_t layer,
                 const Tensor& vector);

}  // namespace heed
