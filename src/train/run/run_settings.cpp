// Reads the settings of a run from its recipe.
#include "train/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <span>

#include "heed/error.h"
#include "train/tasks/model_source.h"

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

std::int64_t steps_between_evaluations(const Recipe& recipe, const TrainingTask& task) {
  if (recipe.eval.every.epochs == 0) return recipe.eval.every.steps;
  const double batches = recipe.eval.every.epochs * static_cast<double>(task.batches_per_epoch());
  return std::max<std::int64_t>(1, std::llround(batches / static_cast<double>(recipe.train.accumulate)));
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

// Compares and shares what all processes of a run have.

void check_same_training(Communicator& world, const TrainingTask& task) {
  if (world.size() == 1) return;
  std::string table;
  for (const Parameter& p : task.parameters())
    table += fmt::format("{} {}\n", p.name, p.tensor.shape().str());
  check_same(world, "train", "parameters", table);
  check_same(world, "train", "data", "data of fingerprint " + task.fingerprint());
}

void check_same_weights(Communicator& world, const std::vector<Parameter>& parameters) {
  if (world.size() == 1) return;
  Fingerprint hash;
  for (const Parameter& p : parameters) {
    const std::size_t numbers = static_cast<std::size_t>(p.tensor.numel());
    if (p.tensor.dtype() == DType::bf16) {
      for (const bfloat16 weight : std::span(p.tensor.data<bfloat16>(), numbers))
        hash.add(std::uint64_t{weight.bits});
    } else {
      hash.add(std::span(reinterpret_cast<const std::int32_t*>(p.tensor.data<float>()), numbers));
    }
  }
  check_same(world, "train",
             "weights (train.shard_optimizer = true keeps them so on processors of different kinds)",
             "weights of fingerprint " + hash.text());
}

void share_weights(Communicator& world, const std::vector<Parameter>& parameters) {
  if (world.size() == 1) return;
  for (const Parameter& p : parameters) {
    dispatch_float("train", p.tensor.dtype(), [&]<class T>() {
      const std::span values(p.tensor.data<T>(), static_cast<std::size_t>(p.tensor.numel()));
      world.broadcast(std::as_writable_bytes(values));
    });
  }
}

std::string memory_report(Communicator& world, const std::vector<Parameter>& parameters,
                          const AdamW& optimizer) {
  std::int64_t weights = 0, gradients = 0;
  for (const Parameter& p : parameters) {
    weights += p.tensor.numel() * static_cast<std::int64_t>(size_of(p.tensor.dtype()));
    gradients += p.tensor.numel() * static_cast<std::int64_t>(sizeof(float));
  }
  const std::vector<std::int64_t> states = gather_values(world, std::vector{optimizer.state_bytes()});
  return fmt::format(
      "each process: {} bytes of trained weights, {} of gradients, {} to {} of the optimizer's state",
      weights, gradients, *std::min_element(states.begin(), states.end()),
      *std::max_element(states.begin(), states.end()));
}

}  // namespace heed
