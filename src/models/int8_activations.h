// Products of quantized weights with rounded inputs, for all weights of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heed/models/quantize.h"
#include "models/weights.h"

namespace heed {

/// Model::use_int8_activations() and Model::int8_activation_errors().
std::int64_t use_int8_activations(const Weights& weights, bool use);
std::vector<QuantizedMap> int8_activation_errors(const Weights& weights, const std::function<void()>& run);

}  // namespace heed
