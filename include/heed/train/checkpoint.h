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
#include "heed/export.h"
#include "heed/io/safetensors.h"
#include "heed/models/find_model.h"
#include "heed/train/adamw.h"
#include "heed/train/training_task.h"

namespace HEED_API heed {

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
  std::int64_t tokens = 0;               ///< target tokens processed so far
  std::int64_t warmup = 0;               ///< in steps; a longer run does not warm up again
  double seconds = 0;
  std::string metric;                         ///< the metric of the scores below
  std::vector<RankedStep> ranked;             ///< the best evaluated steps, best first
  std::int64_t not_better = 0;                ///< evaluations since the best one
  std::map<std::string, std::string> recipe;  ///< recipe_values
  std::string fingerprint;                    ///< of the data
  std::map<std::string, std::string> files;   ///< the checksum of the file of each key of [data]
};

/// The trained tensors of a checkpoint or model directory: those of the adapter, or of the model and of the
/// modules of sentence-transformers behind it, whose names begin with their folders: `2_Dense/linear.weight`.
/// Threads: several may read one object at once.
class SavedWeights {
 public:
  /// Throws Error as TensorFiles::open().
  explicit SavedWeights(const std::filesystem::path& directory);
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  Tensor get(const std::string& name) const;
  /// The file that contains a tensor, for messages.
  const std::filesystem::path& path_of(const std::string& name) const;
  /// That of the model, for messages.
  const std::filesystem::path& path() const { return files_.at("").path(); }

 private:
  const TensorFiles& files_of(const std::string& name) const;
  std::map<std::string, TensorFiles> files_;  // by the beginning of names: "", "2_Dense/"
};

/// Writes `run`/checkpoints/`state.step`. Throws Error, and leaves nothing, if it cannot be written
/// completely. `optimizer` is the state of whole parameters, AdamW::state.
void save_checkpoint(const std::filesystem::path& run, const TrainingTask& task, const TensorMap& optimizer,
                     const TrainingState& state);

/// Throws Error naming the file if a checkpoint is damaged: if a file does not match its checksum in the file
/// `complete` (checkpoints of earlier versions have none), or cannot be parsed.
void verify_checkpoint(const std::filesystem::path& checkpoint);

/// Reads training.json of a checkpoint. Throws Error if it is missing or malformed.
TrainingState load_training_state(const std::filesystem::path& checkpoint);

/// Copies the checkpoint's weights into the parameters. Throws Error if they do not match.
void load_checkpoint_weights(const std::filesystem::path& checkpoint,
                             const std::vector<Parameter>& parameters);
/// Copies the checkpoint's moments into the optimizer. Throws Error if they do not match.
void load_checkpoint_optimizer(const std::filesystem::path& checkpoint, AdamW& optimizer);

/// Copies into each of `parameters` its mean, summed in f64, over the model.safetensors of `directories`.
/// Throws Error if one is missing, of another shape or not finite, or if a checkpoint is damaged.
void load_mean(const std::vector<std::filesystem::path>& directories,
               const std::vector<Parameter>& parameters);

/// Writes to `output` the mean of models with the same parameters: model.safetensors (in the dtypes of the
/// first), and the other files of the first that do not belong to a training run. Throws Error if the tensors
/// of a directory differ in name or shape from the first's or are not finite, if a checkpoint is damaged, or
/// if `output` is a model or a run or another process is writing to it.
void average_models(const std::vector<std::filesystem::path>& directories,
                    const std::filesystem::path& output);

}  // namespace heed
