// The parts of a training run that its loop is made of: what the recipe sets, its folder, the checkpoints
// that it keeps, what it resumes, and what several processes must have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/folder_lock.h"
#include "heed/distributed/communicator.h"
#include "heed/train/adamw.h"
#include "heed/train/checkpoint.h"
#include "heed/train/recipe.h"
#include "heed/train/train.h"
#include "heed/train/training_task.h"

namespace heed {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Each process drops other elements: their rows are different ones.
std::uint64_t dropout_seed(const Recipe& recipe, const Communicator& world);

AdamWOptions adamw_options(const Recipe& recipe);

/// The number of steps of the whole run: as given, or as the epochs need.
std::int64_t total_steps(const Recipe& recipe, const TrainingTask& task);

/// The steps from one evaluation to the next; 0: there are none.
std::int64_t steps_between_evaluations(const Recipe& recipe, const TrainingTask& task);

/// What ranks an evaluation by a metric, or by `loss`: larger is better.
double score_of(const Evaluation& evaluation, const std::string& metric);

/// Throws Error unless eval.metric is one that the task's evaluations give.
void check_metric(const Recipe& recipe, const TrainingTask& task);

// RunFolder: creates the output folder of a run, locks it, and finds the checkpoint to continue from.
class RunFolder {
 public:
  /// Throws Error if the folder cannot be created or another run uses it, if it contains a run that is not to
  /// be resumed, or if the checkpoint to resume is missing or damaged; the message names an older intact one.
  explicit RunFolder(const TrainOptions& options);
  /// Of a process that writes nothing: the first one has found `checkpoint`.
  explicit RunFolder(std::filesystem::path checkpoint) : checkpoint_(std::move(checkpoint)) {}

  /// The checkpoint to continue from; empty for a new run.
  const std::filesystem::path& checkpoint() const { return checkpoint_; }
  /// Throws Error if the folder was renamed or removed since the run began.
  void check() const {
    if (lock_) lock_->check();
  }

 private:
  std::optional<MadeFolder> made_;
  std::optional<FolderLock> lock_;
  std::filesystem::path checkpoint_;
};

/// The run's folder, which the first of several processes opens; the others wait for it, and must see the
/// checkpoint that it found.
std::unique_ptr<RunFolder> open_run_folder(const TrainOptions& options);

/// train_loop in a folder that is already locked.
TrainResult run_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options,
                     const RunFolder& folder);

/// dry_run of a task.
DryRun measure_steps(TrainingTask& task, const Recipe& recipe, const TrainOptions& options);

/// find_lr of a task.
LrRange search_lr(TrainingTask& task, const Recipe& recipe, const TrainOptions& options);

// KeptCheckpoints: decides which checkpoints of a run stay on disk, and whose mean is the final model.

class KeptCheckpoints {
 public:
  /// For the folder `run`, by the recipe's [checkpoint] and the steps ranked in `state`.
  KeptCheckpoints(const std::filesystem::path& run, const Recipe::Checkpoint& recipe,
                  const TrainingState& state)
      : run_(run), recipe_(recipe), state_(state) {}

  bool is_scheduled(std::int64_t step) const { return step % recipe_.every == 0; }
  bool is_ranked(std::int64_t step) const;
  std::vector<std::int64_t> ranked_steps() const;  ///< ascending

  /// Removes checkpoints that are neither among the newest nor ranked, and those after the state's step.
  void prune(std::int64_t last_saved) const;
  /// Returns the steps whose mean is the final model: the ranked ones, or the last scheduled ones.
  std::vector<std::int64_t> final_steps() const;
  /// Returns those of `steps` that have no complete checkpoint.
  std::vector<std::int64_t> not_found(std::vector<std::int64_t> steps) const;
  /// Throws Error if one of `steps`, whose mean is to become the final model, has no complete checkpoint.
  void require(const std::vector<std::int64_t>& steps) const;

 private:
  std::vector<std::int64_t> regular_steps(std::int64_t last_saved) const;

  const std::filesystem::path& run_;
  const Recipe::Checkpoint& recipe_;
  const TrainingState& state_;
};

/// Whether it is a folder of modules.json, such as 1_Pooling: how the vectors of sentence-transformers are
/// made.
bool is_module(const std::filesystem::directory_entry& entry);

// What a run goes on with: the state of a checkpoint, for a recipe and data that are those of the run.

/// The checksum of the file, or of the files in the folder, of each key of [data] that has one.
std::map<std::string, std::string> checksums_of_data(const Recipe& recipe);

/// Throws Error naming the keys in which `recipe` differs from that of the checkpoint's run, although a
/// resumed run may not change them. With options.force it says so in a message instead, except for those of
/// the model, which cannot change.
void check_recipe_of_run(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options);

/// Says which of --init and tokenizer.from a resumed run does not use.
void report_unused_model(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options);

/// The state of the checkpoint. Throws Error if recipe or data changed, as above, naming the files. With
/// options.force, scores on other data do not count, a position past the end of an epoch is the start of the
/// next, and a changed train.warmup is `warmup` steps.
TrainingState resumed_state(const std::filesystem::path& checkpoint, const TrainingTask& task,
                            const Recipe& recipe, const TrainOptions& options, std::int64_t warmup);

// What the processes of a run must have in common, and what they report together.

/// Throws Error if the parameters' names or shapes, or the training data, differ between processes.
void check_same_training(Communicator& world, const TrainingTask& task);

/// Throws Error if the weights differ, as processors that round differently make them.
void check_same_weights(Communicator& world, const std::vector<Parameter>& parameters);

/// Overwrites the parameters with those of the first process.
void share_weights(Communicator& world, const std::vector<Parameter>& parameters);

/// "each process: 46848 bytes of trained weights, ..."; called by all processes.
std::string memory_report(Communicator& world, const std::vector<Parameter>& parameters,
                          const AdamW& optimizer);

}  // namespace heed
