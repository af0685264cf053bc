// Models whose products with quantized weights round their inputs.
#include "models/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "kernels/machine.h"
#include "reference/error.h"

namespace heed {
namespace {

using testing::HasSubstr;

std::filesystem::path llama_folder() { return std::filesystem::path(HEED_FIXTURES) / "decoders" / "llama"; }

std::unique_ptr<Model> quantized_model(int bits) {
  const Config config = Config::load(llama_folder() / "config.json")
                            .with(R"({"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})");
  Generator generator(3);
  auto model = make_model(config, generator);
  model->quantize({.bits = bits, .group = 32});
  return model;
}

// Of rows of 8 tokens.
std::vector<float> logits(const Model& model, const std::vector<std::int64_t>& ids) {
  const NoGradients guard;
  return model.forward({{"input_ids", Tensor::from(ids, {std::ssize(ids) / 8, 8})}})
      .at("logits")
      .to_vector<float>();
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    all += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(difference / all);
}

TEST(Int8Activations, ChangeLittleAndCanBeTurnedOff) {
  for (const int bits : {4, 8}) {
    const auto model = quantized_model(bits);
    const std::vector<std::int64_t> one = {5, 6, 7, 8, 9, 3, 2, 1}, other = {9, 9, 1, 4, 2, 8, 8, 7};
    const std::vector<float> exact = logits(*model, one);
    EXPECT_GT(model->use_activations(Activations::int8), 0);
    const std::vector<float> rounded = logits(*model, one);
    EXPECT_LT(relative_distance(exact, rounded), 0.02);
    EXPECT_GT(relative_distance(exact, rounded), 1e-5);
    // A row does not depend on its neighbors.
    std::vector<std::int64_t> both = other;
    both.insert(both.end(), one.begin(), one.end());
    const std::vector<float> rows = logits(*model, both);
    EXPECT_EQ(rounded, std::vector<float>(rows.begin() + std::ssize(rounded), rows.end()));
    model->use_activations(Activations::f32);
    EXPECT_EQ(logits(*model, one), exact);
  }
}

TEST(Int8Activations, ErrorsAreThoseOfEachProduct) {
  const auto model = quantized_model(8);
  const std::vector<std::int64_t> ids = {5, 6, 7, 8, 9, 3, 2, 1};
  const std::vector<float> exact = logits(*model, ids);
  std::vector<float> seen;
  const std::vector<QuantizedMap> maps = model->int8_activation_errors([&] { seen = logits(*model, ids); });
  EXPECT_EQ(seen, exact) << "the model itself runs with exact products";
  EXPECT_EQ(std::ssize(maps), model->use_activations(Activations::f32));
  for (const QuantizedMap& map : maps) {
    // Rounding to 127 steps of the largest of 32 numbers: about 1/127/sqrt(3) of a mean number.
    EXPECT_GT(*map.output_error, 1e-3) << map.name;
    EXPECT_LT(*map.output_error, 1.5e-2) << map.name;
  }
}

TEST(Int8Activations, NeedWeightsOfIntegers) {
  EXPECT_ERROR(load_model(llama_folder(), {DType::f32, Activations::int8}),
               HasSubstr("int8 activations: expected a model with weights quantized to integers, got none"));
}

TEST(Int8Activations, AreChosenInEncodersOfTextsWhereTheyAreFaster) {
  const std::filesystem::path folder = std::filesystem::path(HEED_FIXTURES) / "encoders" / "bert-classify";
  const Config config =
      Config::load(folder / "config.json").with(R"({"hidden_size": 128, "intermediate_size": 256})");
  const std::string target = kernels::target_name();
  const bool has_fours = target == "amx" || target.ends_with("-vnni");
  for (const auto& [bits, group, faster] : {std::tuple{8, 32, has_fours || target == "avx2"},
                                            {8, 64, has_fours || target.starts_with("avx")},
                                            {8, 128, has_fours || target.starts_with("avx")},
                                            {4, 32, has_fours || target.starts_with("avx")},
                                            {4, 64, has_fours || target.starts_with("avx")}}) {
    SCOPED_TRACE(target + ": " + std::to_string(bits) + " bits in groups of " + std::to_string(group));
    Generator generator(3);
    const auto model = make_model(config, generator);
    model->quantize({.bits = bits, .group = group});
    const std::vector<std::int64_t> ids = {5, 6, 7, 8, 9, 3, 2, 1};
    const std::vector<float> exact = logits(*model, ids);
    EXPECT_FALSE(model->takes_int8());
    EXPECT_GT(model->use_activations(Activations::int8), 0);
    EXPECT_TRUE(model->takes_int8());
    const std::vector<float> rounded = logits(*model, ids);
    EXPECT_NE(rounded, exact);
    model->use_activations(Activations::automatic);
    EXPECT_EQ(model->takes_int8(), faster);
    EXPECT_EQ(logits(*model, ids), faster ? rounded : exact);
  }
}

TEST(Int8Activations, AreNotChosenInDecoders) {
  const auto model = quantized_model(4);
  const std::vector<std::int64_t> ids = {5, 6, 7, 8, 9, 3, 2, 1};
  const std::vector<float> exact = logits(*model, ids);
  model->use_activations(Activations::automatic);
  EXPECT_FALSE(model->takes_int8());
  EXPECT_EQ(logits(*model, ids), exact);
}

TEST(Int8Activations, AreNotForGradients) {
  const auto model = quantized_model(8);
  const TensorMap inputs = {
      {"input_ids", Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8, 9, 3, 2, 1}, {1, 8})}};
  const std::vector<float> exact = model->forward(inputs).at("logits").to_vector<float>();
  model->use_activations(Activations::int8);
  EXPECT_EQ(model->forward(inputs).at("logits").to_vector<float>(), exact);
}

}  // namespace
}  // namespace heed
