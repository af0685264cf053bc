// Model::quantize and what save() needs of it.
#pragma once

#include <functional>
#include <string>

#include "heed/models/quantize.h"
#include "models/awq.h"
#include "models/weights.h"

namespace heed {

/// Model::quantize on the tensors of a model. `calibrate` runs the model on the calibration inputs, of gptq
/// and awq. `layers`: what awq may scale in each; maps that are not among them are only rounded.
QuantizeReport quantize(Weights& weights, const QuantizeOptions& options,
                        const std::function<void()>& calibrate,
                        const std::vector<std::vector<ScaledGroup>>& layers);

/// The quantization_config of compressed-tensors for what quantize() did, as JSON.
std::string quantization_config(const QuantizeReport& report, const QuantizeOptions& options);

}  // namespace heed
