// Checks that the values of a recipe agree with each other.
#include <fmt/format.h>

#include <cmath>

#include "heed/error.h"
#include "heed/train/recipe.h"

namespace heed {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw Error("recipe: " + message);
}

void validate_data(const Recipe& r) {
  if (r.task.kind == "reverse") {
    require(r.task.min_length <= r.task.max_length,
            fmt::format("task.max_length: expected at least task.min_length, {}, got {}", r.task.min_length,
                        r.task.max_length));
    return;
  }
  const bool tsv = r.data.format == "tsv";
  require(!tsv || !r.data.train.empty(), "data.train: not set (give a file of source and target columns)");
  require(tsv || (!r.data.train_source.empty() && !r.data.train_target.empty()),
          "data.train_source, data.train_target: expected both files (data.format is \"lines\"), got fewer");
  require(!tsv || (r.data.train_source.empty() && r.data.train_target.empty() && r.data.dev_source.empty() &&
                   r.data.dev_target.empty() && r.data.test_source.empty() && r.data.test_target.empty()),
          "data: expected data.train, data.dev and data.test, got *_source or *_target (set data.format = "
          "\"lines\" for two files)");
  require(
      tsv || (r.data.train.empty() && r.data.dev.empty() && r.data.test.empty()),
      "data: expected *_source and *_target files (data.format is \"lines\"), got data.train, data.dev or "
      "data.test");
  require(r.data.dev_source.empty() == r.data.dev_target.empty(),
          "data.dev_source, data.dev_target: expected both files or none, got one");
  require(r.data.test_source.empty() == r.data.test_target.empty(),
          "data.test_source, data.test_target: expected both files or none, got one");
  require(!tsv || r.data.source_column != r.data.target_column,
          fmt::format("data.target_column: expected another column than data.source_column, got {} for both",
                      r.data.target_column));
}

bool has_development_set(const Recipe& r) {
  return r.task.kind == "reverse" || r.data.dev_size > 0 || !r.data.dev.empty() || !r.data.dev_source.empty();
}

}  // namespace

void validate_recipe(const Recipe& r) {
  validate_data(r);
  require(r.model.d_model % 2 == 0,
          fmt::format("model.d_model: expected an even number, got {}", r.model.d_model));
  require(r.model.d_model % r.model.heads == 0,
          fmt::format("model.heads: expected a divisor of model.d_model, {}, got {}", r.model.d_model,
                      r.model.heads));
  require(r.data.max_tokens <= r.model.max_positions,
          fmt::format("data.max_tokens: expected at most model.max_positions, {}, got {}",
                      r.model.max_positions, r.data.max_tokens));
  require(r.train.steps > 0 || r.train.epochs > 0,
          "train.steps: no length of the run (set train.steps or train.epochs)");
  require(r.train.warmup < 1 || r.train.warmup == std::floor(r.train.warmup),
          fmt::format("train.warmup: expected a whole number of steps, or a share of the run below 1, got {}",
                      r.train.warmup));
  require(r.train.min_lr <= r.train.lr,
          fmt::format("train.min_lr: expected at most train.lr, {}, got {}", r.train.lr, r.train.min_lr));
  const bool evaluates = r.eval.every > 0 && has_development_set(r);
  require(r.eval.every == 0 || has_development_set(r),
          "eval.every: no development set to evaluate on (set data.dev_size or data.dev, or "
          "eval.every = 0)");
  require(
      r.eval.metric == "loss" || (r.eval.bleu && evaluates),
      fmt::format("eval.metric: expected eval.bleu = true beside \"{}\", got evaluations that do not decode",
                  r.eval.metric));
  require(r.eval.patience == 0 || evaluates, "eval.patience: expected eval.every above 0, got 0");
}

}  // namespace heed
