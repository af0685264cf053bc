// Reads the settings of a run from its recipe.
#include "train/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heed/error.h"

namespace heed {

std::uint64_t dropout_seed(const Recipe& recipe, const Communicator& world) {
  constexpr std::uint64_t kOddConstant = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  return static_cast<std::uint64_t>(recipe.train.seed) ^
         static_cast<std::uint64_t>(world.rank()) * kOddConstant;
}

AdamWOptions adamw_options(const Recipe& recipe) {
  return {.beta1 = recipe.train.betas[0],
          .beta2 = recipe.train.betas[1],
          .eps = recipe.train.eps,
          .weight_decay = recipe.train.weight_decay,
          .bf16_weights = recipe.train.weights == "bf16" && recipe.lora.rank == 0};
}

std::int64_t total_steps(const Recipe& recipe, const TrainingTask& task) {
  const std::int64_t batches = recipe.train.epochs * task.batches_per_epoch();
  const std::int64_t by_epochs = (batches + recipe.train.accumulate - 1) / recipe.train.accumulate;
  if (recipe.train.epochs == 0) return recipe.train.steps;
  return recipe.train.steps == 0 ? by_epochs : std::min(recipe.train.steps, by_epochs);
}

double score_of(const Evaluation& evaluation, const std::string& metric) {
  if (metric == "loss") return -evaluation.loss;
  const auto found = std::find_if(evaluation.metrics.begin(), evaluation.metrics.end(),
                                  [&](const Metric& one) { return one.name == metric; });
  HEED_ASSERT(found != evaluation.metrics.end(), "check_metric() knows it");
  return found->lower_is_better ? -found->value : found->value;
}

void check_metric(const Recipe& recipe, const TrainingTask& task) {
  std::vector<std::string> known = task.metrics();
  known.insert(known.begin(), "loss");
  if (std::find(known.begin(), known.end(), recipe.eval.metric) != known.end()) return;
  throw Error(
      fmt::format("recipe: eval.metric: expected one of {}, got {} (what this task's evaluations give)",
                  fmt::join(known, ", "), recipe.eval.metric));
}

}  // namespace heed
