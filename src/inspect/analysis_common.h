// What the analyses share: numbers of a tap, and the model's predictions.
#pragma once

#include <string>
#include <vector>

#include "heed/inspect/analysis.h"

namespace heed::inspect {

/// Row-major numbers of a value.
inline std::vector<double> numbers(const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); }

/// Each element of `parts` [..., X], row-major, times the factor by which `after` [X] differs from `before`
/// [X] there: what norms and multipliers after an attention do to the contributions of its heads, as they do
/// it to their sum.
std::vector<double> scaled_as(const Tensor& parts, const Tensor& before, const Tensor& after);

/// The number of a layer's tap, e.g. 3 of decoder.layers.3.out for `decoder.layers.` and `.out`; nothing for
/// another name.
std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix);

/// Throws Error as `what` unless 0 <= position < count.
void check_position(const char* what, std::int64_t position, std::int64_t count);
/// Throws Error for a model whose logits are not made of a residual stream.
ReadOut required_read_out(const Model& model, const char* where);
/// The model, if it has a head of labels; else null.
const EncoderModel* classifier_of(const Model& model);
/// The model, if it is a masked language model; else null.
const EncoderModel* masked_model_of(const Model& model);
/// Throws Error for a model that predicts neither tokens nor a label.
void require_predictions(const Model& model, const char* where);

/// Throws Error, as `where`, unless both have inputs of the same shapes.
void check_same_shapes(const TensorMap& clean, const TensorMap& corrupted, const char* where);
/// Throws Error, as `where`, for two equal metrics, between which nothing can be measured.
void check_metrics_differ(double clean, double corrupted, const char* where);

}  // namespace heed::inspect
