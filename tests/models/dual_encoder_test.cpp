// What is particular to models of two towers; outputs and gradients are in families_test.cpp.
#include "models/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kClip = fs::path(HEED_FIXTURES) / "clip";

const DualEncoderModel& dual(const Model& model) { return dynamic_cast<const DualEncoderModel&>(model); }

TEST(DualEncoder, TowersGiveTheVectorsOfTheWhole) {
  for (const char* name : {"clip", "siglip", "siglip2"}) {
    const fs::path folder = fs::path(HEED_FIXTURES) / name;
    const auto model = load_model(folder);
    const TensorMap inputs = read_tensors(folder / "inputs.safetensors"),
                    expected = read_tensors(folder / "expected.safetensors");
    const NoGradients guard;
    Context context;
    const auto vectors = [&](const EncoderModel& tower, const ModelInput& input) {
      return tower.vectors(tower.encode(input, context), input);
    };
    const auto given = [&](const char* input) {
      return inputs.contains(input) ? inputs.at(input) : Tensor();
    };
    const Tensor texts =
        vectors(dual(*model).text(), {.ids = inputs.at("input_ids"), .mask = given("attention_mask")});
    const Tensor images = vectors(dual(*model).image(), {.mask = given("pixel_attention_mask"),
                                                         .values = inputs.at("pixel_values"),
                                                         .grids = given("spatial_shapes")});
    EXPECT_LE(relative_error(texts, expected.at("text_model_output.pooler_output")), 1e-5) << name;
    EXPECT_LE(relative_error(images, expected.at("vision_model_output.pooler_output")), 1e-5) << name;
    EXPECT_LE(relative_error(dual(*model).logits(texts, images), expected.at("logits_per_text")), 1e-5)
        << name;
    EXPECT_EQ(dual(*model).text().vector_size(), texts.size(1)) << name;
    EXPECT_EQ(dual(*model).image().vector_size(), texts.size(1)) << name;
    EXPECT_EQ(dual(*model).text().padded_length().has_value(), std::string(name) != "clip");
  }
}

TEST(DualEncoder, OtherNumbersOfTextsThanOfImagesHaveNoLoss) {
  const auto model = load_model(kClip);
  TensorMap inputs = read_tensors(kClip / "inputs.safetensors");
  const NoGradients guard;
  const TensorMap whole = model->forward(inputs);
  inputs["pixel_values"] = slice(inputs.at("pixel_values"), 0, 0, 1).contiguous();
  const TensorMap one = model->forward(inputs);
  EXPECT_TRUE(whole.contains("loss"));
  EXPECT_FALSE(one.contains("loss"));
  EXPECT_EQ(one.at("logits_per_image").shape(), (Shape{1, 3}));
  EXPECT_LE(
      relative_error(one.at("logits_per_text"), slice(whole.at("logits_per_text"), 1, 0, 1).contiguous()),
      1e-5);
}

// Settings of towers as old files have them: text_config_dict is what counts.
TEST(DualEncoder, OlderFilesHaveTheirSettingsTwice) {
  const TemporaryFolder folder;
  fs::copy_file(kClip / "model.safetensors", folder / "model.safetensors");
  json config = read_json(kClip / "config.json");
  for (const char* key : {"text_config", "vision_config"}) {
    config[std::string(key) + "_dict"] = config[key];
    config[key] = {{"hidden_size", 4096}, {"some_old_key", 1}};
  }
  write_file(folder / "config.json", config.dump());
  const auto model = load_model(folder);
  EXPECT_THAT(model->unknown_settings(), testing::IsEmpty());
  EXPECT_EQ(dual(*model).text().hidden_size(), 32);
}

TEST(DualEncoder, UnknownSettingsOfTowersAreReported) {
  const TemporaryFolder folder;
  fs::copy_file(kClip / "model.safetensors", folder / "model.safetensors");
  json config = read_json(kClip / "config.json");
  config["vision_config"]["new_setting"] = 1;
  write_file(folder / "config.json", config.dump());
  EXPECT_THAT(load_model(folder)->unknown_settings(), testing::ElementsAre("vision_config.new_setting"));
}

TEST(DualEncoder, RefusesWhatDoesNotFit) {
  const auto refusal = [](const char* tower, const char* key, const json& value) {
    json config = read_json(kClip / "config.json");
    (tower == nullptr ? config : config[tower])[key] = value;
    Generator generator(1);
    try {
      make_model(Config::parse(config.dump(), "config.json"), generator);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal("text_config", "max_position_embeddings", 1 << 20), HasSubstr("at most 65536"));
  EXPECT_THAT(refusal("text_config", "num_attention_heads", 5), HasSubstr("divides the model dimension 32"));
  EXPECT_THAT(refusal("vision_config", "image_size", json::array({32, 24})), HasSubstr("one number"));
  EXPECT_THAT(refusal("vision_config", "patch_size", 64), HasSubstr("at most the sizes of image_size"));
  EXPECT_THAT(refusal(nullptr, "projection_dim", 0), HasSubstr("projection_dim"));
  EXPECT_THAT(refusal(nullptr, "architectures", "CLIPForImageClassification"),
              HasSubstr("expected CLIPModel"));
  EXPECT_THAT(refusal(nullptr, "new_setting", 1), HasSubstr("only known settings"));
}

TEST(DualEncoder, OnlyTowersHaveVectors) {
  const auto model = load_model(fs::path(HEED_FIXTURES) / "encoders" / "bert");
  const auto& bert = dynamic_cast<const EncoderModel&>(*model);
  EXPECT_EQ(bert.vector_size(), 0);
  EXPECT_ERROR(bert.vectors(Tensor::zeros({1, 2, 32}), {}), "a model that makes vectors of its own");
}

}  // namespace
}  // namespace heed
