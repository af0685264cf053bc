// From recipe to model: the one way in.
#include "heed/train/train.h"

#include "train/translation.h"

namespace heed {

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  validate_recipe(recipe);
  check_output(options);
  TranslationTrainee translation(recipe, options);
  std::filesystem::create_directories(options.output);
  translation.write_held_out(options.output);
  return train_loop(translation, recipe, options);
}

}  // namespace heed
