// Trains a model from a recipe, from data to the finished model directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/distributed/communicator.h"
#include "heed/export.h"
#include "heed/train/recipe.h"
#include "heed/train/training_task.h"

namespace HEED_API heed {

// The training loop for any TrainingTask: steps, evaluations, checkpoints, early stopping, and the final
// model. A run that was interrupted and resumed ends with the same bytes as an uninterrupted one.

/// One step, for a progress display.
struct ProgressEvent {
  std::int64_t step = 0;
  std::int64_t total = 0;  ///< steps of the whole run
  std::int64_t epoch = 0;  ///< in which the step began, counted from 0
  double passes = 0;       ///< over the data, including this step's batches: 2.5 halfway through the third
                           ///< pass
  double loss = 0;         ///< per target
  double lr = 0;
  double per_second = 0;  ///< targets, or SummedLoss::read, over the latest steps
  std::string unit{};     ///< of the targets: TrainingTask::unit
  double seconds_left = 0;
  std::vector<Metric> metrics{};  ///< TrainingTask::step_metrics
};

struct EvaluationEvent {
  std::int64_t step = 0;
  Evaluation evaluation;
  bool best = false;  ///< the best so far
};

struct TrainOptions {
  std::filesystem::path output{};  ///< created if missing
  bool resume = false;  ///< continue from the newest complete checkpoint, or start a new run if there is none
  /// Continue from the checkpoint of this step. Implies `resume`; later checkpoints are removed.
  std::optional<std::int64_t> resume_from{};
  /// Resume although the recipe or the data changed; a message says what did.
  bool force = false;
  std::filesystem::path init{};  ///< a model directory to start from; empty: a new model
  std::function<void(const ProgressEvent&)> on_progress{};
  std::function<void(const EvaluationEvent&)> on_evaluation{};
  /// After each checkpoint, and before the first step of a new run: the task has the weights of that step.
  std::function<void(std::int64_t step, const TrainingTask&)> on_checkpoint{};
  std::function<void(const std::string&)> on_message{};  ///< what was done or skipped, in one or more lines
  /// When true: finish the step, write a checkpoint, return; before the first step: throw Canceled.
  const std::atomic<bool>* stop = nullptr;
  /// The processes that train together; null: this one alone. All of them call train with the same recipe;
  /// only the first one writes files and calls the functions above. `stop` of any of them stops all.
  Communicator* processes = nullptr;
};

/// options.processes, or a single one.
Communicator& processes_of(const TrainOptions& options);

struct TrainResult {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;                 ///< complete passes over the data
  double passes = 0;                       ///< the same, including the fraction of the last pass
  double seconds = 0;                      ///< total of all parts of the run
  bool stopped = false;                    ///< by `stop`: there is a checkpoint and no final model
  bool early_stopped = false;              ///< by eval.patience
  std::vector<std::int64_t> averaged{};    ///< steps of the checkpoints whose mean is the final model
  std::optional<Evaluation> evaluation{};  ///< of the final model, on the development set
  std::optional<Evaluation> test{};        ///< and on the test set
};

/// The cost of a run.
struct DryRun {
  std::int64_t trained = 0;  ///< parameters
  std::int64_t steps = 0, batches_per_epoch = 0;
  double seconds_per_step = 0;        ///< of the steps behind the first
  std::int64_t targets_per_step = 0;  ///< in them
  std::string unit{};                 ///< of the targets: TrainingTask::unit
  std::int64_t peak_memory = 0;       ///< of the process, in bytes
  DataSummary data{};
  double data_seconds = 0;  ///< in which the data were read and tokenized, and the model was made
};

/// The loss of a model while its learning rate rises.
struct LrRange {
  struct Point {
    double lr = 0;
    double loss = 0;
    double smoothed = 0;  ///< over about the last ten steps
  };
  std::vector<Point> points{};
  double lowest = 0;     ///< the rate of the lowest smoothed loss
  double suggested = 0;  ///< a tenth of it, where the loss still falls fast
};

/// Runs the recipe's [train], [eval] and [checkpoint] on `task`, which has the initial parameters (a resumed
/// run overwrites them). Writes to options.output: the final model (TrainingTask::save), checkpoints/STEP/,
/// log.jsonl, log.csv, loss.svg, predictions-SET.jsonl and report.html. Locks the folder. Throws Error if it
/// contains a run not to be resumed or that another process is writing to, or if it is renamed or removed
/// during the run. Throws Error if the loss or the gradient is not finite (the last good checkpoint is kept),
/// or if something cannot be written. When resuming, throws Error if the recipe or the data changed (unless
/// forced), or if a checkpoint is damaged or missing. With several processes, also throws Error if recipes,
/// data or parameters differ.
TrainResult train_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options);

/// Trains the recipe's model and writes to options.output: config.json, generation_config.json,
/// model.safetensors and the tokenizer's files in Hugging Face layout, checkpoints/STEP/ (each of them a
/// model directory too), log.jsonl, loss.svg, and the pairs held out from the training file (dev.source.txt,
/// dev.reference.txt, and the same for test). Throws Error if the recipe is contradictory or the data has no
/// usable pairs, and as train_loop does.
TrainResult train(const Recipe& recipe, const TrainOptions& options);

/// Reads the data, makes the model and runs up to twenty steps, as train does, for half a minute and at least
/// three steps, but writes nothing: options.output is not used, and all data are kept in memory. Throws Error
/// as train does.
DryRun dry_run(const Recipe& recipe, const TrainOptions& options);

/// Trains for at most 100 steps with a learning rate that rises by a constant factor from 1e-7 to 1, or until
/// the loss is four times its lowest. Writes nothing, as dry_run, and throws Error as it does.
LrRange find_lr(const Recipe& recipe, const TrainOptions& options);

/// The scores of the model in options.init on data.test, as training computes them, for the tasks on labeled
/// texts: classification, tagging and answers. Throws Error if data.test is not set, if it cannot be read, or
/// if the model has no head for the task or lacks labels of the data.
Evaluation evaluate(const Recipe& recipe, const TrainOptions& options);

}  // namespace heed
