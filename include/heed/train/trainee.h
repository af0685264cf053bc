// Trainee: what the training loop needs to know of a task. The loop owns steps, learning rate, checkpoints
// and logs; a trainee owns a model and its data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/data/batch.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"

namespace heed {

/// The loss of one micro-batch: summed, not averaged, so that accumulated micro-batches weigh by their
/// tokens.
struct SummedLoss {
  Tensor sum;               ///< scalar, with its history
  std::int64_t tokens = 0;  ///< targets it is the sum over
};

/// What an evaluation on the development set found.
struct Evaluation {
  double loss = 0;                ///< cross-entropy per target token, without label smoothing
  std::optional<double> bleu{};   ///< where the set was decoded
  std::optional<double> exact{};  ///< share of outputs, in percent, that equal a reference
};

class Trainee {
 public:
  virtual ~Trainee() = default;

  virtual const std::vector<Parameter>& parameters() const = 0;
  /// The loss of the next micro-batch, after which position() has moved on.
  virtual SummedLoss next_loss(Context& context) = 0;
  /// Place of the next micro-batch, and going to such a place.
  virtual BatchPosition position() const = 0;
  virtual void seek(const BatchPosition& position) = 0;
  /// Micro-batches of the first epoch.
  virtual std::int64_t batches_per_epoch() const = 0;
  /// Whether there is a development set.
  virtual bool evaluates() const = 0;
  virtual Evaluation evaluate() = 0;
  /// Scores the finished model on the test set, where there is one.
  virtual std::optional<Evaluation> test() = 0;
  /// Writes a directory from which the model can be used.
  virtual void save(const std::filesystem::path& directory, DType dtype) const = 0;
  /// Changes whenever the data does that training sees.
  virtual std::string fingerprint() const = 0;
};

}  // namespace heed
