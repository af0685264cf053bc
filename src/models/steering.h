// How assembled models do Model::steer(), and vectors for who adds them by listeners.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models/steering.h"
#include "heed/nn/stack.h"
#include "heed/tensor.h"

namespace heed {

/// The vectors of a source times its strength, by the names of the taps (`decoder.layers.3.out`) whose values
/// a listener adds them to: what a pass is then is what it is after steer_model(). Throws the same errors.
TensorMap steering_by_taps(const Model& model, const SteeringSource& source);

/// Adds `vector` to the steering vector of a layer of the stack of that name, among those that a model has.
/// Throws Error for a stack, a layer or a width that is not there.
void steer_stack(const std::vector<Stack*>& stacks, const std::string& name, std::int64_t layer,
                 const Tensor& vector);

}  // namespace heed
