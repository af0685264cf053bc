// KeptCheckpoints: decides which checkpoints of a run stay on disk, and whose mean is the final model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "heed/train/checkpoint.h"
#include "heed/train/recipe.h"

namespace heed {

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

}  // namespace heed
