// What is particular to ViT and Whisper: models without a head, positions of a new model, inputs that are no
// text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

TEST(Vit, ABareModelIsFoundInTheFileOfAHead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"ViTModel"};
  spill(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  TensorMap inputs = read_tensors(from / "inputs.safetensors");
  inputs.erase("labels");
  Context context;
  const TensorMap got = load_model(folder)->forward(inputs, {}, context);
  // The classifier sees the first token of what the bare model gives.
  const TensorMap weights = read_tensors(from / "model.safetensors"),
                  expected = read_tensors(from / "expected.safetensors");
  const Tensor first = slice(got.at("last_hidden_state"), 1, 0, 1);
  const Tensor logits = linear(first, weights.at("classifier.weight"), weights.at("classifier.bias"));
  EXPECT_LE(relative_error(reshape(logits, {2, 5}), expected.at("logits")), 1e-5);
  EXPECT_FALSE(got.contains("pooler_output"));
}

TEST(Vit, ABareModelsFileLacksTheHeadAlone) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit-model";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"ViTForImageClassification"};
  spill(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  EXPECT_ERROR(load_model(folder), testing::AllOf(testing::HasSubstr("classifier.weight"),
                                                  testing::Not(testing::HasSubstr("embeddings"))));
}

// The file's table was computed with angles in f32, up to 30 * 2^-24 off.
TEST(Whisper, ANewModelHasTheSinusoidsOfTheFile) {
  const fs::path fixture = fs::path(HEED_FIXTURES) / "whisper";
  Generator generator(1);
  const auto model = make_model(Config::load(fixture / "config.json"), generator);
  const TemporaryFolder folder;
  model->save(folder);
  const char* name = "model.encoder.embed_positions.weight";
  const Tensor made = read_tensors(folder / "model.safetensors").at(name).clone();
  EXPECT_LE(relative_error(made, read_tensors(fixture / "model.safetensors").at(name)), 2e-6);
}

// As WhisperModel saves it: no output projection, and names without the prefix.
TEST(Whisper, ABareModelIsRead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "whisper";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"WhisperModel"};
  spill(folder / "config.json", config.dump());
  std::vector<NamedTensor> bare;
  for (const auto& [name, tensor] : read_tensors(from / "model.safetensors")) {
    if (name.starts_with("model.")) bare.push_back({name.substr(6), tensor});
  }
  save_safetensors(folder / "model.safetensors", bare);
  Context context;
  const TensorMap got = load_model(folder)->forward(read_tensors(from / "inputs.safetensors"), {}, context);
  EXPECT_LE(relative_error(got.at("logits"), read_tensors(from / "expected.safetensors").at("logits")), 1e-5);
}

TEST(Whisper, ReadsNoTextAndTextModelsHearNothing) {
  const Tensor ids = Tensor::zeros({1, 3}, DType::i64);
  Context context;
  const auto whisper = load_encoder_decoder(fs::path(HEED_FIXTURES) / "whisper"),
             bart = load_encoder_decoder(fs::path(HEED_FIXTURES) / "bart");
  EXPECT_ERROR(whisper->decode({ids, {}}, context),
               "(the model has an audio frontend), got token ids (heed translate");
  EXPECT_ERROR(whisper->decode({{}, {}, Tensor::zeros({1, 80, 61})}, context), "f32[B, 80, 60], got");
  EXPECT_ERROR(bart->decode({{}, {}, Tensor::zeros({1, 80, 60})}, context),
               "(the model has no audio frontend), got input_features (heed translate");
}

}  // namespace
}  // namespace heed
