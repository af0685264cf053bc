// The training loop for any TrainingTask: steps, evaluations, checkpoints, early stopping, and the final
// model. A run that was interrupted and resumed ends with the same bytes as an uninterrupted one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/train/recipe.h"
#include "heed/train/training_task.h"

namespace heed {

/// One step, for a progress display.
struct ProgressEvent {
  std::int64_t step = 0;
  std::int64_t total = 0;  ///< steps of the whole run
  std::int64_t epoch = 0;  ///< that the step began in, from 0
  double passes = 0;       ///< over the data, this step's batches included: 2.5 in the middle of the third
  double loss = 0;         ///< per target token
  double lr = 0;
  double tokens_per_second = 0;  ///< target tokens, over the last steps
  double seconds_left = 0;
};

struct EvaluationEvent {
  std::int64_t step = 0;
  Evaluation evaluation;
  bool best = false;  ///< the best so far
};

struct TrainOptions {
  std::filesystem::path output{};  ///< made where it is missing
  bool resume = false;  ///< go on from the newest complete checkpoint, or start where there is none
  /// Go on from the checkpoint of this step, which implies `resume`; later ones are removed.
  std::optional<std::int64_t> resume_from{};
  std::filesystem::path init{};  ///< a model directory to start from; empty: a new model
  std::function<void(const ProgressEvent&)> on_progress{};
  std::function<void(const EvaluationEvent&)> on_evaluation{};
  std::function<void(const std::string&)> on_message{};  ///< what was done or skipped, in a line or more
  const std::atomic<bool>* stop = nullptr;  ///< when true: finish the step, write a checkpoint, return
};

struct TrainResult {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;                 ///< whole passes over the data
  double passes = 0;                       ///< the same with the part of the last one
  double seconds = 0;                      ///< of all parts of the run together
  bool stopped = false;                    ///< by `stop`: there is a checkpoint and no final model
  bool early_stopped = false;              ///< by eval.patience
  std::vector<std::int64_t> averaged{};    ///< steps of the checkpoints the final model is the mean of
  std::optional<Evaluation> evaluation{};  ///< of the final model, on the development set
  std::optional<Evaluation> test{};        ///< and on the test set
};

/// Runs the recipe's [train], [eval] and [checkpoint] on `task`, which has the parameters to start with (a
/// resumed run overwrites them). Leaves in options.output: the final model (TrainingTask::save),
/// checkpoints/STEP/, log.jsonl and loss.svg. The folder is locked meanwhile. Throws Error when it holds a
/// run that is not to be resumed or that another process writes to, when it is renamed or removed during the
/// run, when the loss or the gradient is not finite (the last good checkpoint stays), when something cannot
/// be written, when the recipe or the data of a resumed run changed, and when a checkpoint is damaged or
/// missing.
TrainResult train_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options);

}  // namespace heed
