// Checkpoints of a training run: `checkpoints/STEP/` with a usable model, the optimizer's state, and
// everything else that an identical continuation needs. A checkpoint is either complete or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/data/batch.h"
#include "heed/train/adamw.h"
#include "heed/train/training_task.h"

namespace heed {

/// An evaluated step; higher scores are better.
struct RankedStep {
  std::int64_t step = 0;
  double score = 0;
};

/// The state of a run besides model and optimizer.
struct TrainingState {
  std::int64_t step = 0;
  BatchPosition position;                ///< of the next micro-batch
  std::uint64_t generator_position = 0;  ///< of dropout's random streams
  std::int64_t tokens = 0;               ///< targets seen
  std::int64_t warmup = 0;               ///< steps; a longer run does not go back to warming up
  double seconds = 0;
  std::string metric;                         ///< what the scores below are
  std::vector<RankedStep> ranked;             ///< the best evaluated steps, best first
  std::int64_t not_better = 0;                ///< evaluations since the best one
  std::map<std::string, std::string> recipe;  ///< recipe_values
  std::string fingerprint;                    ///< of the data
};

/// Steps of the complete checkpoints in `run`/checkpoints, ascending.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& run);
std::filesystem::path checkpoint_path(const std::filesystem::path& run, std::int64_t step);

/// Writes `run`/checkpoints/`state.step`. Throws Error when it cannot be written whole; nothing is left then.
void save_checkpoint(const std::filesystem::path& run, const TrainingTask& task, const AdamW& optimizer,
                     const TrainingState& state);

/// Throws Error, naming the file, where a checkpoint is damaged: by the checksums in its file `complete`
/// (checkpoints of earlier versions have none), and where a file cannot be read as what it is.
void verify_checkpoint(const std::filesystem::path& checkpoint);

/// Reads training.json of a checkpoint. Throws Error where it is missing or malformed.
TrainingState load_training_state(const std::filesystem::path& checkpoint);

/// Copies the checkpoint's numbers into parameters and optimiser. Throws Error where they do not fit.
void load_checkpoint_tensors(const std::filesystem::path& checkpoint,
                             const std::vector<Parameter>& parameters, AdamW& optimizer);

/// The mean, summed in f64, of each parameter over the model.safetensors of `directories`, copied into
/// `parameters`. Throws Error where one is missing, of another shape or not finite, or a checkpoint damaged.
void load_mean(const std::vector<std::filesystem::path>& directories,
               const std::vector<Parameter>& parameters);

/// Writes to `output` the mean of models of one shape: model.safetensors (in the dtypes of the first), and
/// the other files of the first that are not a training run's own. Throws Error when the tensors of a
/// directory differ in name or shape from the first's or are not finite, when a checkpoint is damaged, and
/// when a run or another process writes to `output`.
void average_models(const std::vector<std::filesystem::path>& directories,
                    const std::filesystem::path& output);

}  // namespace heed
