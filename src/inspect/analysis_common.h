// What the analyses share: numbers of a tap, and the model's predictions.
#pragma once

#include <string>
#include <vector>

#include "heed/inspect/analysis.h"

namespace heed::inspect {

/// Row-major numbers of a value.
inline std::vector<double> numbers(const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); }

/// The number of a layer's tap, e.g. 3 of decoder.layers.3.out for `decoder.layers.` and `.out`; nothing for
/// another name.
std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix);

/// Throws Error for a model whose logits are not made of a residual stream.
ReadOut required_read_out(const Model& model, const char* where);
/// Throws Error for a model that predicts no next token.
void require_predictions(const Model& model, const char* where);

}  // namespace heed::inspect
