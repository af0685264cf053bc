// Runs of a model on several rows at once, of which one number each is measured: the only place where a
// metric is made of logits. Rows of one run have inputs of the same shapes. A run that changes one layer
// begins there, with what an earlier run gave to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/inspect/metric.h"
#include "heed/nn/tap.h"
#include "nn/stack_resume.h"

namespace heed::inspect {

/// A row of a run: an input, and for `kl` the log-probabilities [P, V] of the run that it is compared with
/// (log_probabilities()).
struct RunRow {
  const MeasuredInput* input = nullptr;
  Tensor reference = {};
};

/// Throws Error, as `where`, unless the metric can be measured of this input and model.
void check_metric(const Model& model, const MeasuredInput& input, const char* where);
/// Throws Error, as `where`, unless both have inputs of the same shapes.
void check_same_shapes(const TensorMap& clean, const TensorMap& corrupted, const char* where);
/// Throws Error, as `where`, for two equal metrics, between which nothing can be measured.
void check_metrics_differ(double clean, double corrupted, const char* where);
/// Whether two inputs can be rows of one run.
bool can_share_run(const MeasuredInput& a, const MeasuredInput& b);
/// The number of positions that a metric is the mean of; the weight of a text in a mean over texts.
std::int64_t measured_positions(const Model& model, const MeasuredInput& input);

/// One forward pass; the metric of each row, f64 [R]. With gradients recorded, it has a history.
Tensor run_measured(const Model& model, std::span<const RunRow> rows, Taps* taps = nullptr);
/// The log-probabilities [P, V] at the measured positions of each row.
std::vector<Tensor> log_probabilities(const Model& model, std::span<const RunRow> rows, Taps* taps = nullptr);

/// Rows that are run at once, of `positions` tokens each: some, for fast matrix products, but not so many
/// that memory is large.
std::int64_t rows_at_once(std::int64_t positions);
/// The positions of an input of tokens, patches or frames: of an encoder-decoder, the larger number of the
/// two; 1 of others.
std::int64_t positions_of(const TensorMap& inputs);
/// Rows beside each other.
TensorMap joined_rows(std::span<const RunRow> rows);

/// What each layer of a model was given in a run, and what the last one gave: [B, T, D].
class LayerInputs {
 public:
  /// Hears them, if the model has stacks of layers. This must outlive the run.
  void listen(const Model& model, Taps& taps);
  /// While the result exists, a run whose rows are these rows of the earlier one begins at the layer of the
  /// stack; that of a decoder skips its encoder. Empty, and the run begins at its input, for other models.
  std::vector<std::unique_ptr<StackResume>> resume(const std::string& stack, std::int64_t layer,
                                                   const std::vector<std::int64_t>& rows) const;

  /// What the last layer of the stack gave in those rows.
  Tensor end(const std::string& stack, const std::vector<std::int64_t>& rows) const;

 private:
  Tensor rows_at(const std::string& stack, std::int64_t layer, const std::vector<std::int64_t>& rows) const;

  std::map<std::string, std::vector<Tensor>> inputs_;  // by stack
};

}  // namespace heed::inspect
