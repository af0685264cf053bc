// TrainingTask: the interface between the training loop and a task. The loop owns steps, learning rate,
// checkpoints and logs; a task owns a model and its data.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/data/batch.h"
#include "heed/export.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/train/data_summary.h"

namespace HEED_API heed {

/// The loss of one micro-batch: a sum, not a mean, so that accumulated micro-batches are weighted by their
/// tokens, and so are the shares of several processes.
struct SummedLoss {
  Tensor sum;                      ///< scalar, with gradient history; undefined where there are no targets
  std::int64_t tokens = 0;         ///< number of targets in the sum: tokens, or TrainingTask::unit
  std::optional<double> weight{};  ///< by which the sum is divided, where targets are weighted; else `tokens`
  /// The sums over the targets of what TrainingTask::step_metrics names; empty: zeros.
  std::vector<double> metrics{};
  /// Where targets are tokens, those of all rows, of pairs on both sides, without padding; by default
  /// `tokens`
  std::optional<std::int64_t> read{};
};

/// A score of a task besides the loss, e.g. {"bleu", 41.0}.
struct Metric {
  std::string name;
  double value = 0;  ///< in percent where that makes sense
  bool lower_is_better = false;
};

/// What a model says of one example of a set.
struct Prediction {
  std::int64_t number = 0;              ///< of the example in the set, from 0
  std::string text{};                   ///< the example, or the path of its file
  std::string right{}, predicted{};     ///< a label, labels, a value, or a text
  std::vector<double> probabilities{};  ///< of each label that the model knows
  double loss = std::nan("");           ///< if it is known; of a text that is modeled, per token
  std::int64_t tokens = 0;              ///< of such a text: those predicted
};

/// Result of an evaluation.
struct Evaluation {
  double loss = 0;  ///< per target: cross-entropy, without label smoothing, or the squared error
  std::vector<Metric> metrics{};
  std::vector<Prediction> predictions{};  ///< of labels, answers, translations and transcripts, in order

  std::optional<double> metric(std::string_view name) const {
    for (const Metric& m : metrics) {
      if (m.name == name) return m.value;
    }
    return std::nullopt;
  }
};

/// Threads: one at a time.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  /// The unit of the targets of a loss, in the plural.
  virtual std::string unit() const { return "tokens"; }
  virtual const std::vector<Parameter>& parameters() const = 0;
  /// Computes the loss of the next micro-batch and advances position(). With several processes, each computes
  /// the loss of its share of the rows; together, the shares are the micro-batch of a single process.
  virtual SummedLoss next_loss(Context& context) = 0;
  /// Gets and sets the position of the next micro-batch.
  virtual BatchPosition position() const = 0;
  virtual void seek(const BatchPosition& position) = 0;
  /// Returns the number of micro-batches in the first epoch.
  virtual std::int64_t batches_per_epoch() const = 0;
  /// Returns true if there is a development set.
  virtual bool evaluates() const = 0;
  /// The labels that the model tells apart; none: it does something else.
  virtual std::vector<std::string> labels() const { return {}; }
  /// The names of what next_loss() adds up besides the loss: the log has their means.
  virtual std::vector<std::string> step_metrics() const { return {}; }
  /// The names of the metrics that evaluate() returns.
  virtual std::vector<std::string> metrics() const { return {}; }
  /// Several processes share the work and get the same result.
  virtual Evaluation evaluate() = 0;
  /// What the model writes behind beginnings of its held-out texts; of a model that writes none, nothing.
  virtual std::vector<Prediction> samples() const { return {}; }
  /// Scores the final model on the test set, if there is one.
  virtual std::optional<Evaluation> test() = 0;
  /// Writes a usable model directory.
  virtual void save(const std::filesystem::path& directory, DType dtype) const = 0;
  /// Returns a hash of the training data, which changes whenever the data change.
  virtual std::string fingerprint() const = 0;
  /// What is known of the data.
  virtual DataSummary data() const { return {}; }
};

}  // namespace heed
