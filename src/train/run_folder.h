// The output folder of a run: made, locked for this run alone, and the checkpoint in it to go on from.
#pragma once

#include <filesystem>
#include <optional>

#include "heed/io/folder_lock.h"
#include "heed/train/loop.h"

namespace heed {

class RunFolder {
 public:
  /// Throws Error when the folder cannot be made or another run uses it, when it holds a run that is not to
  /// be resumed, and when the checkpoint to resume is missing or damaged; names an older one that is whole.
  explicit RunFolder(const TrainOptions& options);

  /// The checkpoint to go on from; empty for a new run.
  const std::filesystem::path& checkpoint() const { return checkpoint_; }
  /// Throws Error when the folder was renamed or removed since the run began.
  void check() const { lock_.check(); }

 private:
  // Made before the data is read, so that a folder that cannot be made is reported at once; removed again in
  // the end when nothing was written.
  class Made {
   public:
    explicit Made(const std::filesystem::path& path);
    ~Made();

   private:
    std::filesystem::path path_;
    bool made_ = false;
  };

  Made made_;
  FolderLock lock_;
  std::filesystem::path checkpoint_;
};

/// train_loop in a folder that is held already.
TrainResult run_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options,
                     const RunFolder& folder);

}  // namespace heed
