// The image-classification task: labels of images, which are decoded and changed at random in the background.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/labeled_data.h"
#include "heed/image/processor.h"
#include "image/augment.h"
#include "train/tasks/batched_task.h"

namespace heed {

/// Images of one size, and the numbers of their labels.
struct ImageBatch {
  ModelInput inputs;
  Tensor labels;  ///< i64 [B]
  std::vector<std::int64_t> rows;
  Tensor other_labels;  ///< i64 [B]: of the images that are mixed into these; undefined: none
  double share = 1;     ///< of an image and its label in the mixture
};

/// Makes the batches of training. Owns what the reader's thread needs.
struct ImageBatchMaker {
  ImageProcessor processor;
  std::vector<std::string> names;  ///< of the labels
  std::int64_t height = 0, width = 0;
  image::Augmentation augmentation = {};  ///< none in evaluations
  double mixup = 0;
  std::uint64_t seed = 0;

  /// With mixup, each image of the whole batch is mixed with the one as far from the batch's end as it is
  /// from the start: the same for one process and for several, which have different shares.
  ImageBatch operator()(const ChosenRecords<LabeledTexts>& images, const BatchPlan::Rows& batch) const;

 private:
  Tensor pixels_of(const ChosenRecords<LabeledTexts>& images, const std::vector<std::int64_t>& rows,
                   std::int64_t epoch) const;
  Tensor labels_of(const ChosenRecords<LabeledTexts>& images, const std::vector<std::int64_t>& rows) const;
};

class ImageClassificationTask final : public BatchedTask<ImageBatch> {
 public:
  ImageClassificationTask(const Recipe& recipe, const TrainOptions& options,
                          const std::filesystem::path& checkpoint);
  std::string unit() const override { return "images"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  std::vector<std::string> labels() const override { return model_->labels(); }
  SummedLoss next_loss(Context& context) override;
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override { return {"accuracy", "f1"}; }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;

 private:
  using Images = ChosenRecords<LabeledTexts>;
  void load_or_make(const std::filesystem::path& from, const std::string& members);
  /// Fills data_. Throws Error naming the first images that cannot be read.
  void look_at_images();
  void begin_training();
  SummedLoss weighted_loss(const ImageBatch& batch, const Tensor& logits) const;
  BatchPlan plan_of(const Images& images, BatchPlanOptions options) const;
  Evaluation evaluate(const Images& images) const;
  void message(const std::string& text) const {
    if (options_.on_message) options_.on_message(text);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  Images train_, dev_, test_;
  std::optional<Config> preprocessor_;  ///< what save() writes beside the model
  std::optional<ImageProcessor> processor_;
  std::unique_ptr<EncoderModel> model_;
  std::vector<Parameter> parameters_;
  std::vector<double> class_weights_;
};

}  // namespace heed
