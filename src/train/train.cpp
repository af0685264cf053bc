// Trains a model from a recipe.
#include "heed/train/train.h"

#include "train/run_folder.h"
#include "train/translation.h"

namespace heed {

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  validate_recipe(recipe);
  const RunFolder folder(options);
  TranslationTask translation(recipe, options, folder.checkpoint());
  translation.write_held_out(options.output);
  return run_loop(translation, recipe, options, folder);
}

}  // namespace heed
