// RunFolder: creates the output folder of a run, locks it, and finds the checkpoint to continue from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "files/folder_lock.h"
#include "heed/train/loop.h"

namespace heed {

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

}  // namespace heed
