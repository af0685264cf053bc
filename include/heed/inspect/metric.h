// The metric of an analysis: one number, computed from the logits of a run. Every analysis that removes,
// replaces or patches values compares this number in two runs. Also means over texts, with their standard
// errors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

/// With the logits l [V] at a position, p = softmax(l), a token A and another, B (or two labels):
///
///   loss               -ln p(A); without a token, the mean over the tokens of the text of -ln p(token)
///   logit              l(A)
///   logit_difference   l(A) - l(B)
///   probability        p(A)
///   kl                 sum over the vocabulary of p0 ln(p0 / p), p0 being the probabilities of another run:
///                      the unchanged one, or the one that values are taken from
enum class MetricKind : std::uint8_t { loss, logit, logit_difference, probability, kl };

struct LogitMetric {
  MetricKind kind = MetricKind::loss;
  std::optional<std::int64_t> token = {}, other = {};  ///< A and B: ids of tokens, or numbers of labels
  /// The position of the logits; by default the last. A classifier has none.
  std::optional<std::int64_t> position = {};
};

/// One text, image or sound as inputs of Model::forward(), one row, and its metric. For a loss without a
/// token, `labels` are among the inputs: the tokens of the text, or the label.
struct MeasuredInput {
  TensorMap inputs;
  LogitMetric metric = {};
};

/// The metric of one run; `kl` of a run against itself is 0. Throws Error if the metric lacks a token, for a
/// token, label or position that does not exist, and for a model without logits of tokens or labels.
double measure(const Model& model, const MeasuredInput& input);

/// A mean over texts, and its standard error: sqrt(n / (n - 1) sum w^2 (x - mean)^2) / |sum w| for weights w,
/// which is s / sqrt(n) for equal weights; 0 for one text.
struct Estimate {
  double mean = 0, error = 0;
};
/// `weights` may be empty: all 1.
Estimate estimate_of(std::span<const double> values, std::span<const double> weights = {});

}  // namespace heed
