// Trains a model from a recipe.
#include "heed/train/train.h"

#include <fmt/format.h>

#include "core/stop_scope.h"
#include "heed/train/checkpoint.h"
#include "train/recipe/recipe_fields.h"
#include "train/run/run.h"
#include "train/tasks/embedding.h"
#include "train/tasks/image_classification.h"
#include "train/tasks/labeled_task.h"
#include "train/tasks/language_modeling.h"
#include "train/tasks/model_source.h"
#include "train/tasks/preference.h"
#include "train/tasks/reranking.h"
#include "train/tasks/transcription.h"
#include "train/tasks/translation.h"

namespace heed {
namespace {

std::unique_ptr<TrainingTask> make_task(const Recipe& recipe, const TrainOptions& options,
                                        const std::filesystem::path& checkpoint) {
  const StopScope scope(options.stop);
  const std::string& kind = recipe.task.kind;
  if (kind == "causal-lm") return std::make_unique<CausalLmTask>(recipe, options, checkpoint);
  if (kind == "masked-lm") return std::make_unique<MaskedLmTask>(recipe, options, checkpoint);
  if (kind == "denoising") return std::make_unique<DenoisingTask>(recipe, options, checkpoint);
  if (kind == "classification") return std::make_unique<ClassificationTask>(recipe, options, checkpoint);
  if (kind == "tagging") return std::make_unique<TaggingTask>(recipe, options, checkpoint);
  if (kind == "embedding") return std::make_unique<EmbeddingTask>(recipe, options, checkpoint);
  if (kind == "reranking") return std::make_unique<RerankingTask>(recipe, options, checkpoint);
  if (kind == "image-classification")
    return std::make_unique<ImageClassificationTask>(recipe, options, checkpoint);
  if (kind == "transcription") return std::make_unique<TranscriptionTask>(recipe, options, checkpoint);
  if (kind == "preference") return std::make_unique<PreferenceTask>(recipe, options, checkpoint);
  if (kind == "answers") return std::make_unique<AnswersTask>(recipe, options, checkpoint);
  return std::make_unique<TranslationTask>(recipe, options, checkpoint);
}

void tell_of_data(const TrainingTask& task, const TrainOptions& options) {
  if (!options.on_message) return;
  for (const std::string& line : data_lines(task.data())) options.on_message(line);
}

void write_held_out(const TrainingTask& task, const Recipe& recipe, const TrainOptions& options) {
  const auto* translation = dynamic_cast<const TranslationTask*>(&task);
  if (translation == nullptr || !processes_of(options).is_first()) return;
  check_metric(recipe, task);  // before anything is written
  translation->write_held_out(options.output);
}

// A task that trains an adapter.
std::unique_ptr<TrainingTask> make_adapter_task(const Recipe& recipe, const TrainOptions& options) {
  std::unique_ptr<TrainingTask> task = make_task(recipe, options, {});
  if (options.on_message) {
    std::int64_t numbers = 0;
    for (const Parameter& p : task->parameters()) numbers += p.tensor.numel();
    options.on_message(
        fmt::format("an adapter of {} parameters is trained, the model stays as it is", numbers));
  }
  return task;
}

// A task, or one that trains an adapter, of a run without a folder.
std::unique_ptr<TrainingTask> make_task_of_new_run(const Recipe& recipe, TrainOptions& options) {
  if (recipe.lora.rank == 0) return make_task(recipe, options, {});
  options.init = adapted_model(options, {});
  return make_adapter_task(recipe, options);
}

// The recipe without its paths, which may differ between hosts: what their files hold is compared.
std::string recipe_lines(const Recipe& recipe) {
  Recipe copy = recipe;
  std::map<std::string, std::string> values = recipe_values(recipe);
  for (const RecipeField& field : recipe_fields(copy)) {
    if (std::holds_alternative<std::filesystem::path*>(field.target)) values.erase(field.key);
  }
  std::string text;
  for (const auto& [key, value] : values) text += fmt::format("{} = {}\n", key, value);
  return text;
}

// A task on an adapter always starts from the model that is adapted; a checkpoint has the adapter alone,
// which the loop loads.
TrainResult train_adapter(const Recipe& recipe, const TrainOptions& given, const RunFolder& folder) {
  TrainOptions options = given;
  options.init = adapted_model(given, folder.checkpoint());
  const std::unique_ptr<TrainingTask> task = make_adapter_task(recipe, options);
  tell_of_data(*task, options);
  write_held_out(*task, recipe, options);
  return run_loop(*task, recipe, options, folder);
}

// The recipe with its defaults, if it and the options can be trained.
Recipe checked(const Recipe& given, TrainOptions& options) {
  const Recipe recipe = with_defaults(given);
  validate_recipe(recipe);
  Communicator& world = processes_of(options);
  check_same(world, "train", "recipe", recipe_lines(recipe));
  if (!options.init.empty()) refuse_overrides_of_model(recipe);
  if (!world.is_first()) options.on_message = nullptr;
  return recipe;
}

}  // namespace

TrainResult train(const Recipe& given, const TrainOptions& given_options) {
  TrainOptions options = given_options;
  const Recipe recipe = checked(given, options);
  const std::unique_ptr<RunFolder> opened = open_run_folder(options);
  const RunFolder& folder = *opened;
  // Before the data are read and the model is loaded, which may fail for this very reason.
  if (!folder.checkpoint().empty()) {
    TrainOptions silent = options;  // the loop says what changed
    silent.on_message = nullptr;
    const TrainingState state = load_training_state(folder.checkpoint());
    check_recipe_of_run(folder.checkpoint(), state, recipe, silent);
    report_unused_model(folder.checkpoint(), state, recipe, options);
  }
  if (recipe.lora.rank > 0) return train_adapter(recipe, options, folder);
  const std::unique_ptr<TrainingTask> task = make_task(recipe, options, folder.checkpoint());
  tell_of_data(*task, options);
  write_held_out(*task, recipe, options);
  return run_loop(*task, recipe, options, folder);
}

LrRange find_lr(const Recipe& given, const TrainOptions& given_options) {
  TrainOptions options = given_options;
  options.output.clear();
  const Recipe recipe = checked(given, options);
  const std::unique_ptr<TrainingTask> task = make_task_of_new_run(recipe, options);
  const StopScope scope(options.stop);
  return search_lr(*task, recipe, options);
}

DryRun dry_run(const Recipe& given, const TrainOptions& given_options) {
  TrainOptions options = given_options;
  options.output.clear();
  const Recipe recipe = checked(given, options);
  const Stopwatch watch;
  const std::unique_ptr<TrainingTask> task = make_task_of_new_run(recipe, options);
  const double seconds = watch.seconds();
  const StopScope scope(options.stop);
  DryRun run = measure_steps(*task, recipe, options);
  run.data = task->data();
  run.data_seconds = seconds;
  return run;
}

Evaluation evaluate(const Recipe& given, const TrainOptions& options) {
  const Recipe recipe = with_defaults(given);
  refuse_unused_keys(recipe);
  if (recipe.data.test.empty()) throw Error("recipe: data.test: not set (give the data to evaluate on)");
  const std::unique_ptr<TrainingTask> task = make_task(recipe, options, {});
  const std::optional<Evaluation> evaluation = task->test();
  HEED_ASSERT(evaluation, "a test set without examples");
  return *evaluation;
}

}  // namespace heed
