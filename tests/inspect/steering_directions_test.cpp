// Steering vectors against hooks on Hugging Face models and NumPy (tests/fixtures/analysis/steering.json), in
// files and in the model, with and without a cache.
#include "heed/inspect/steering_directions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::vector<std::int64_t>>;
const std::filesystem::path kFixtureFolder = HEED_FIXTURES;

class SteeringOf : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> model = load_model(kFixtureFolder / GetParam());
  Json expected = read_json(kFixtureFolder / "analysis" / "steering.json").at(GetParam());
  Texts positive = expected["positive"], negative = expected["negative"];
};
INSTANTIATE_TEST_SUITE_P(Families, SteeringOf,
                         testing::Values("decoders/gpt2", "decoders/llama", "decoders/gemma3",
                                         "encoders/bert-mlm"),
                         [](const auto& info) {
                           std::string name = std::string(info.param).substr(9);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(SteeringOf, DirectionsEqualHooks) {
  for (const char* tokens : {"last", "mean"}) {
    for (const char* method : {"mean", "pca"}) {
      const Json& layers = expected[tokens][method];
      const auto found = steering_directions(
          *model, positive, negative,
          {.method = method == std::string("pca") ? SteeringMethod::pca : SteeringMethod::mean,
           .mean_over_tokens = tokens == std::string("mean")});
      ASSERT_EQ(found.size(), layers.size());
      for (std::size_t layer = 0; layer < found.size(); ++layer) {
        const std::vector<float> numbers = found[layer].vector.vector.to_vector<float>();
        ASSERT_EQ(numbers.size(), layers[layer].size());
        for (std::size_t i = 0; i < numbers.size(); ++i)
          EXPECT_NEAR(numbers[i], layers[layer][i].get<double>(), 1e-4)
              << tokens << method << layer << " " << i;
        EXPECT_EQ(found[layer].vector.layer, static_cast<std::int64_t>(layer));
      }
    }
  }
}

// The vector of the fixture: 1.5 times that of the last layer, added behind another.
Tensor steered_vector(const Json& expected) {
  const std::vector<float> last = expected["last"]["mean"].back();
  std::vector<float> vector;
  for (const float number : last) vector.push_back(1.5F * number);
  return Tensor::from(vector, {std::ssize(vector)});
}

TEST_P(SteeringOf, SteeredModelEqualsHooks) {
  const Json& steered = expected["steered"];
  const std::vector<std::int64_t> ids = steered["ids"];
  const NoGradients guard;
  model->steer(GetParam()[0] == 'e' ? "encoder" : "decoder", steered["layer"], steered_vector(expected));
  const Tensor logits = model->forward({{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}}).at("logits");
  const std::vector<float> all = logits.to_vector<float>();
  const std::size_t vocabulary = steered["logits"].size(), first = all.size() - vocabulary;
  for (std::size_t v = 0; v < vocabulary; ++v)
    EXPECT_NEAR(all[first + v], steered["logits"][v].get<double>(), 1e-4) << v;
  if (!steered.contains("new")) return;
  const auto& decoder = dynamic_cast<const DecoderModel&>(*model);
  const auto decoding = decoder.decode(1);
  Context context;
  Tensor next = Tensor::from(ids, {1, std::ssize(ids)});
  for (const std::int64_t id : steered["new"].get<std::vector<std::int64_t>>()) {
    const std::vector<float> scores = decoding->step(next, context).to_vector<float>();
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    EXPECT_EQ(best, id);
    next = Tensor::from(std::vector<std::int64_t>{best}, {1, 1});
  }
}

TEST(SteeringDirections, WhatTheyRefuse) {
  const auto model = load_model(kFixtureFolder / "decoders/gpt2");
  const Texts one{{5, 6}}, two{{5, 6}, {7, 8}};
  EXPECT_ERROR(steering_directions(*model, one, two, {.method = SteeringMethod::pca}),
               "expected as many positive as negative texts, which pca takes in pairs, got 1 and 2");
  EXPECT_ERROR(steering_directions(*model, one, {}, {}), "expected negative texts, got none");
  EXPECT_ERROR(steering_directions(*model, Texts{{}}, two, {}),
               "positive texts with tokens, got none in text 1");
  EXPECT_ERROR(steering_directions(*model, one, one, {}), "sets of texts that differ");
  const auto vit = load_model(kFixtureFolder / "vit");
  EXPECT_ERROR(steering_directions(*vit, one, two, {}), "steer: expected a model of texts");
}

}  // namespace
}  // namespace heed
