// What the analyses share: numbers of a tap, and the model's predictions.
#pragma once

#include <string>
#include <vector>

#include "heed/inspect/analysis.h"

namespace heed::inspect {

/// Row-major numbers of a value.
inline std::vector<double> numbers(const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); }

/// What each head adds to the residual stream, row-major [H, T, D]. Norms and multipliers after the attention
/// do to the heads' `contributions` [1, H, T, D] what they do to its output: `out` becomes `added` [1, T, D].
std::vector<double> added_by_heads(const Tensor& contributions, const Tensor& out, const Tensor& added);

/// The number of a layer's tap, e.g. 3 of decoder.layers.3.out for `decoder.layers.` and `.out`; nothing for
/// another name.
std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix);

/// Throws Error for a model whose logits are not made of a residual stream.
ReadOut required_read_out(const Model& model, const char* where);
/// The model, if it has a head of labels; else null.
const EncoderModel* classifier_of(const Model& model);
/// Throws Error for a model that predicts neither a next token nor a label.
void require_predictions(const Model& model, const char* where);

}  // namespace heed::inspect
