// Files of steering vectors: what is written is read, those of others are, and what is wrong is named.
#include "heed/models/steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "files/gguf_file.h"
#include "files/gguf_output.h"
#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

const std::filesystem::path kFixtureModels = HEED_FIXTURES;

Tensor vector_from(std::int64_t first, std::int64_t width) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < width; ++i) numbers.push_back(static_cast<float>(first + i) / 16);
  return Tensor::from(numbers, {width});
}

std::vector<SteeringVector> some_vectors(std::int64_t width = 48) {
  return {{"decoder", 0, vector_from(1, width), ""}, {"decoder", 1, vector_from(2, width), ""}};
}

TEST(Steering, SafetensorsAreReadBack) {
  const TemporaryFolder folder;
  save_steering(folder / "v.safetensors", some_vectors(), "gpt2", {{"method", "mean"}});
  const auto read = load_steering(folder / "v.safetensors");
  ASSERT_EQ(read.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].stack, "decoder");
    EXPECT_EQ(read[i].layer, static_cast<std::int64_t>(i));
    EXPECT_EQ(read[i].vector.to_vector<float>(), some_vectors()[i].vector.to_vector<float>());
  }
  EXPECT_EQ(SafetensorsFile::open(folder / "v.safetensors").metadata().at("method"), "mean");
}

// As llama.cpp has it: tensors `direction.N` for layer N, none for layer 0.
TEST(Steering, ControlVectorsAreReadBack) {
  const TemporaryFolder folder;
  save_steering(folder / "v.gguf", some_vectors(), "gpt2", {});
  const GgufFile file = GgufFile::open(folder / "v.gguf");
  EXPECT_EQ(file.string("general.architecture"), "controlvector");
  EXPECT_EQ(file.string("controlvector.model_hint"), "gpt2");
  EXPECT_EQ(file.integer("controlvector.layer_count"), 1);
  const auto read = load_steering(folder / "v.gguf");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].stack, "");
  EXPECT_EQ(read[0].layer, 1);
  EXPECT_EQ(read[0].tensor, "direction.1");
  EXPECT_EQ(read[0].vector.to_vector<float>(), some_vectors()[1].vector.to_vector<float>());
  EXPECT_ERROR(save_steering(folder / "w.gguf", {some_vectors()[0]}, "gpt2", {}), "got layer 0 alone");
  EXPECT_ERROR(save_steering(folder / "w.gguf", {some_vectors()[1], {"encoder", 1, vector_from(0, 48), ""}},
                             "marian", {}),
               "expected vectors of one stack for a control vector, got those of decoder and encoder");
  EXPECT_FALSE(std::filesystem::exists(folder / "w.gguf"));
}

TEST(Steering, FilesOfOtherThings) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  save_safetensors(file, {{"lm_head.weight", Tensor::zeros({4, 4})}});
  EXPECT_ERROR(load_steering(file), "lm_head.weight: expected steering vectors, tensors named");
  save_safetensors(file, {{"direction.x", Tensor::zeros({4})}});
  EXPECT_ERROR(load_steering(file), "direction.x: expected steering vectors");
  save_safetensors(file, {{"direction.2", Tensor::zeros({4, 4})}});
  EXPECT_ERROR(load_steering(file), "direction.2: expected a vector of floating numbers, got f32[4, 4]");
  save_safetensors(file, {{"direction.2", Tensor::full({4}, std::numeric_limits<double>::infinity())}});
  EXPECT_ERROR(load_steering(file), "direction.2: expected finite numbers");
  save_safetensors(file, {});
  EXPECT_ERROR(load_steering(file), "expected steering vectors, got no tensors");
  save_safetensors(file, {{"direction.2", Tensor::full({1, 1, 4}, 2, DType::bf16)}});
  EXPECT_EQ(load_steering(file).at(0).vector.to_vector<float>(), std::vector<float>(4, 2.0F));
  GgufValues values;
  values.text("general.architecture", "llama");
  write_gguf(folder / "m.gguf", values, {});
  EXPECT_ERROR(load_steering(folder / "m.gguf"),
               "m.gguf: general.architecture: expected controlvector, got llama");
}

TEST(Steering, WhatAModelDoesNotHave) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  const auto model = load_model(kFixtureModels / "decoders/gpt2");
  const auto steer = [&](const std::string& tensor, std::int64_t width, TapRange layers = {}) {
    save_safetensors(file, {{tensor, vector_from(1, width)}});
    steer_model(*model, {{file, 1.0, layers}});
  };
  EXPECT_ERROR(steer("direction.1", 47),
               file.string() +
                   ": direction.1: expected a vector of 48 numbers, as many as the model's stream "
                   "has, got f32[47]");
  EXPECT_ERROR(steer("direction.1", 1), "expected a vector of 48 numbers");
  EXPECT_ERROR(steer("direction.2", 48), file.string() + ": direction.2: expected a layer below 2");
  EXPECT_ERROR(steer("encoder.layers.1.out", 48),
               "encoder.layers.1.out: expected a layer of the stack decoder, got one of encoder");
  EXPECT_ERROR(steer("direction.1", 48, {0, 1}),
               "expected vectors of layers from 0 to 0, got those of layers 1 to 1");
  const auto recurrent = load_model(kFixtureModels / "recurrent" / "dot-gru");
  EXPECT_ERROR(steer_model(*recurrent, {{file}}), "which cannot be steered");
}

// Two files add up, and a layer's output is what it was plus the vectors.
TEST(Steering, VectorsAddUp) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  save_steering(file, some_vectors(), "gpt2", {});
  const NoGradients guard;
  const auto plain = load_model(kFixtureModels / "decoders/gpt2");
  const auto steered =
      load_model(LocatedModel{kFixtureModels / "decoders/gpt2", {}, {{file, 2.0, {0, 1}}, {file, -0.5, {}}}});
  const auto first_layer = [](const Model& model) {
    Taps taps;
    std::vector<float> numbers;
    taps.listen("decoder.layers.0.out",
                [&](const std::string&, Tensor& value) { numbers = value.to_vector<float>(); });
    Context context{.taps = &taps};
    model.forward({{"input_ids", Tensor::from(std::vector<std::int64_t>{7, 8, 9}, {1, 3})}}, {}, context);
    return numbers;
  };
  const std::vector<float> before = first_layer(*plain), after = first_layer(*steered),
                           added = some_vectors()[0].vector.to_vector<float>();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i], before[i] + 1.5F * added[i % 48], 1e-5F) << i;
}

}  // namespace
}  // namespace heed
