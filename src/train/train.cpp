// Trains a model from a recipe.
#include "heed/train/train.h"

#include "train/labelled_task.h"
#include "train/language_modelling.h"
#include "train/run_folder.h"
#include "train/translation.h"

namespace heed {
namespace {

std::unique_ptr<TrainingTask> make_task(const Recipe& recipe, const TrainOptions& options,
                                        const std::filesystem::path& checkpoint) {
  const std::string& kind = recipe.task.kind;
  if (kind == "causal-lm") return std::make_unique<CausalLmTask>(recipe, options, checkpoint);
  if (kind == "masked-lm") return std::make_unique<MaskedLmTask>(recipe, options, checkpoint);
  if (kind == "denoising") return std::make_unique<DenoisingTask>(recipe, options, checkpoint);
  if (kind == "classification") return std::make_unique<ClassificationTask>(recipe, options, checkpoint);
  if (kind == "tagging") return std::make_unique<TaggingTask>(recipe, options, checkpoint);
  if (kind == "answers") return std::make_unique<AnswersTask>(recipe, options, checkpoint);
  auto translation = std::make_unique<TranslationTask>(recipe, options, checkpoint);
  translation->write_held_out(options.output);
  return translation;
}

}  // namespace

TrainResult train(const Recipe& given, const TrainOptions& options) {
  const Recipe recipe = with_defaults(given);
  validate_recipe(recipe);
  const RunFolder folder(options);
  const std::unique_ptr<TrainingTask> task = make_task(recipe, options, folder.checkpoint());
  return run_loop(*task, recipe, options, folder);
}

}  // namespace heed
