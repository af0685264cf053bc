// Training of image classifiers: from folders and tables, with random changes, from scratch and from a model.
#include "train/tasks/image_classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/models/registry.h"
#include "heed/tasks/classify.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImageClassification : public TasksTest {
 protected:
  std::vector<std::size_t> labels_of(const std::filesystem::path& run) const {
    std::vector<std::size_t> best;
    const std::vector<std::string> files{folder_ / "images/blue/2.ppm", folder_ / "images/green/1.ppm",
                                         folder_ / "images/red/0.ppm"};
    for (const auto& scores :
         classify_images(*load_as<EncoderModel>(run), load_image_processor(run), files, 1))
      best.push_back(scores.front().index);
    return best;
  }
};

TEST_F(ImageClassification, LearnsFromScratchAndTheSavedModelClassifiesFiles) {
  std::string unit;
  const TrainResult result = train(
      images(60), {.output = folder_ / "run", .on_progress = [&](const ProgressEvent& e) { unit = e.unit; }});
  EXPECT_EQ(unit, "images");
  EXPECT_THAT(log_lines(folder_ / "run").at(0), HasSubstr("\"images\": 8"));
  EXPECT_EQ(result.evaluation->metric("accuracy").value(), 100.0);
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "run")->labels(),
            (std::vector<std::string>{"blue", "green", "red"}));
  EXPECT_EQ(labels_of(folder_ / "run"), (std::vector<std::size_t>{0, 1, 2}));
  // Without training: the head of the same labels is kept.
  Recipe again = images(1);
  again.model.settings.clear();
  again.train.lr = again.train.weight_decay = 0;
  EXPECT_EQ(
      train(again, {.output = folder_ / "again", .init = folder_ / "run"}).evaluation->metric("accuracy"),
      100.0);
}

TEST_F(ImageClassification, LearnsFromChangedImages) {
  EXPECT_EQ(train(changed_images(150), {.output = folder_ / "run"}).evaluation->metric("accuracy").value(),
            100.0);
}

// A batch of 5 images, of which a share has rows 1 and 3.
TEST_F(ImageClassification, ImagesAreMixedWithTheirMirroredPartnersAndChangeInEveryEpoch) {
  const Recipe r = images(1);
  const auto list =
      std::make_shared<const LabeledTexts>(read_labeled_images(r.data.train, with_defaults(r).data, {}));
  ChosenRecords<LabeledTexts> chosen{list, {0, 9, 17, 1, 10}};
  ImageBatchMaker make{make_image_processor(Config::parse(R"({"image_processor_type": "ViTImageProcessor",
                           "size": {"height": 8, "width": 8}})",
                                                          "test")),
                       {"blue", "green", "red"},
                       8,
                       8,
                       {.flip = 0.5, .jitter = 0.5}};
  const BatchPlan::Rows whole{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {3, 2}, {}},
      share{{1, 3}, {0, 1, 2, 3, 4}, {3, 2}, {}};
  const ImageBatch plain = make(chosen, whole);
  EXPECT_FALSE(plain.other_labels.defined());
  EXPECT_EQ(plain.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(make(chosen, whole).inputs.values.to_vector<float>(), plain.inputs.values.to_vector<float>());
  BatchPlan::Rows later = whole;
  later.position.epoch = 4;
  EXPECT_NE(make(chosen, later).inputs.values.to_vector<float>(), plain.inputs.values.to_vector<float>());

  make.mixup = 1;
  const ImageBatch mixed = make(chosen, share);
  EXPECT_EQ(mixed.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(mixed.other_labels.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1}));  // of rows 3 and 1
  EXPECT_GT(mixed.share, 0);
  EXPECT_LT(mixed.share, 1);
  constexpr std::int64_t kSize = 3 * 8 * 8;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const float *all = plain.inputs.values.data<float>(), *got = mixed.inputs.values.data<float>();
    const float one = all[1 * kSize + i], other = all[3 * kSize + i];
    const auto part = static_cast<float>(mixed.share);
    ASSERT_NEAR(got[i], part * one + (1 - part) * other, 1e-6);
    ASSERT_NEAR(got[kSize + i], part * other + (1 - part) * one, 1e-6);
  }
}

TEST_F(ImageClassification, TrainsAnAdapter) {
  train(images(2), {.output = folder_ / "base"});
  Recipe adapter = images(80);
  adapter.model.settings.clear();
  adapter.lora.rank = 4;
  adapter.lora.alpha = 8;
  adapter.lora.targets.names = {"query", "value", "dense"};
  adapter.lora.train = {"classifier"};
  const TrainResult result = train(adapter, {.output = folder_ / "adapter", .init = folder_ / "base"});
  EXPECT_EQ(result.evaluation->metric("accuracy").value(), 100.0);
  EXPECT_TRUE(is_adapter(folder_ / "adapter"));
}

// DINOv2 takes images of any size: that of preprocessing counts.
TEST_F(ImageClassification, FineTunesAModelOfImagesOfAnySize) {
  Recipe r = images(2);
  r.model.family = "dinov2";
  r.model.settings = {{"image_size", "16"},       {"patch_size", "4"},          {"hidden_size", "16"},
                      {"num_hidden_layers", "1"}, {"num_attention_heads", "2"}, {"mlp_ratio", "2"}};
  r.train.batch_tokens = 8 * 17;
  train(r, {.output = folder_ / "base"});
  const std::filesystem::path file = folder_ / "base/preprocessor_config.json";
  std::string settings = read_file(file);
  for (std::size_t at = 0; (at = settings.find(": 16", at)) != std::string::npos;)
    settings.replace(at, 4, ": 8");
  write_file(file, settings);
  Recipe tuned = images(60);
  tuned.model.settings.clear();
  const TrainResult result = train(tuned, {.output = folder_ / "tuned", .init = folder_ / "base"});
  EXPECT_EQ(result.evaluation->metric("accuracy").value(), 100.0);
  EXPECT_THAT(log_lines(folder_ / "tuned").at(0), HasSubstr("\"images\": 8"));
}

TEST_F(ImageClassification, ATableIsReadAsFoldersAre) {
  const Recipe folders = images(4);
  train(folders, {.output = folder_ / "folders"});
  Recipe table = folders;
  table.data.format = "tsv";
  std::string rows;
  for (const auto& [label, first] : {std::pair("blue", 2), std::pair("green", 1), std::pair("red", 0)}) {
    std::vector<std::string> names;
    for (int i = first; i < 24; i += 3) names.push_back(std::to_string(i) + ".ppm");
    std::sort(names.begin(), names.end());
    for (const std::string& name : names)
      rows += std::string(label) + "\timages/" + label + "/" + name + "\n";
  }
  write_file(folder_ / "table.tsv", rows);
  table.data.train = table.data.dev = folder_ / "table.tsv";
  train(table, {.output = folder_ / "table"});
  EXPECT_TRUE(weights(folder_ / "folders") == weights(folder_ / "table"));
}

TEST_F(ImageClassification, OtherFilesAreSkippedAndCounted) {
  const Recipe r = images(1);
  write_file(folder_ / "images/red/notes.txt", "x");
  write_file(folder_ / "images/top.ppm", "x");
  write_file(folder_ / "images/red/.hidden.ppm", "x");
  std::string said;
  TrainOptions options{.output = folder_ / "run"};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  train(r, options);
  EXPECT_THAT(
      said,
      AllOf(HasSubstr("24 images to train on, 24 for development, 0 for the test, 4 other files skipped"),
            HasSubstr("\nall 48 images were decoded to find damaged ones\n"), HasSubstr("a vit model of "),
            HasSubstr(" parameters, 3 labels")));
}

TEST_F(ImageClassification, RefusesWhatDoesNotFit) {
  Recipe r = images(4);
  r.data.dev = folder_ / "images/red/0.ppm";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("0.ppm: expected a folder with a folder of images for each label, got a file"));
  r = images(4);
  r.data.train = folder_ / "images/red";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("images/red: expected a folder with a folder of images for each label, got none"));
  r = images(4);
  std::filesystem::create_directories(folder_ / "dev/pink");
  std::filesystem::copy(folder_ / "images/red/0.ppm", folder_ / "dev/pink/0.ppm");
  r.data.dev = folder_ / "dev";
  EXPECT_THAT(
      refusal_of(r),
      HasSubstr("pink/0.ppm: expected one of the labels of training (blue, green, red), got \"pink\""));
  r = images(4);
  r.train.batch_tokens = 4;
  EXPECT_THAT(refusal_of(r), HasSubstr("got one of 5 tokens"));
  r = images(4);
  apply_override(r, "tokenizer.vocab_size=100");
  EXPECT_THAT(refusal_of(r),
              HasSubstr("tokenizer.vocab_size: the task image-classification has no tokenizer"));
  r = images(4);
  apply_override(r, "data.max_tokens=3");
  EXPECT_THAT(refusal_of(r), HasSubstr("expected a key that the task image-classification uses"));
  r = classification(4);
  apply_override(r, "augment.flip=0.5");
  EXPECT_THAT(refusal_of(r), HasSubstr("augment.flip, which is for image-classification"));
  r = images(4);
  write_file(folder_ / "images/red/broken.png", "no image");
  EXPECT_THAT(refusal_of(r), HasSubstr("red/broken.png: expected a PNG, JPEG, WebP, GIF or PNM image"));
  std::filesystem::remove(folder_ / "images/red/broken.png");
  std::filesystem::remove_all(folder_ / "refused");
  write_file(folder_ / "images/red/cut.ppm", "P6 4 4 255\nonly sixteen byte");  // of 48
  EXPECT_THAT(refusal_of(r), AllOf(HasSubstr("expected images that can be read, got 2 that cannot"),
                                   HasSubstr("red/cut.ppm: expected a whole image")));  // of two sets
  std::filesystem::remove(folder_ / "images/red/cut.ppm");
  std::filesystem::remove_all(folder_ / "refused");
  train(masked(1), {.output = folder_ / "text"});
  EXPECT_THAT(refusal_of(images(1), folder_ / "text"), HasSubstr("expected"));
}

}  // namespace
}  // namespace heed
