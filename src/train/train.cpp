// From recipe to model: the one way in.
#include "heed/train/train.h"

#include "heed/error.h"
#include "train/translation.h"

namespace heed {

namespace {

// Before the data is read, so that a folder that cannot be made is told at once; gone again if that fails.
class OutputFolder {
 public:
  explicit OutputFolder(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    made_ = std::filesystem::create_directories(path, error);
    if (error) {
      throw Error(path.string() + ": expected a folder that can be made, got \"" + error.message() +
                  "\" (choose another --output)");
    }
  }
  ~OutputFolder() {
    std::error_code error;
    if (made_) std::filesystem::remove(path_, error);  // only when it is empty
  }

 private:
  std::filesystem::path path_;
  bool made_ = false;
};

}  // namespace

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  validate_recipe(recipe);
  check_output(options);
  const OutputFolder folder(options.output);
  TranslationTrainee translation(recipe, options);
  translation.write_held_out(options.output);
  return train_loop(translation, recipe, options);
}

}  // namespace heed
