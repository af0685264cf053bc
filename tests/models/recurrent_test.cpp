// What is particular to recurrent encoder-decoders (tests/fixtures/recurrent): gradients in double, learning
// a batch by heart, dropout, and what the family refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "heed/models/registry.h"
#include "models/family_fixtures.h"
#include "models/fixture_adamw.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct RecurrentFamily : testing::TestWithParam<FamilyFixture> {
  fs::path fixture = GetParam().path();
  std::unique_ptr<EncoderDecoderModel> model = load_as<EncoderDecoderModel>(fixture);
  TensorMap inputs = read_tensors(fixture / "inputs.safetensors");
  TensorMap expected = read_tensors(fixture / "expected.safetensors");
  ModelInput source{inputs.at("input_ids"), inputs.at("attention_mask")};
  Context context;
};
INSTANTIATE_TEST_SUITE_P(Cases, RecurrentFamily,
                         testing::ValuesIn(family_fixtures([](const FamilyFixture& f) {
                           return f.is_in("recurrent");
                         })),
                         [](const auto& info) { return as_test_name(info.param.folder); });

TEST_P(RecurrentFamily, EveryGradientEqualsPyTorchInDouble) {
  model = load_as<EncoderDecoderModel>(fixture, DType::f64);
  const TensorMap outputs = model->forward(inputs, {}, context);
  EXPECT_LE(relative_error(outputs.at("logits"), expected.at("logits")), 1e-6);
  outputs.at("loss").backward();
  for (const Parameter& p : model->parameters())
    EXPECT_LE(relative_error(p.tensor.grad(), expected.at("grad." + p.name)), 1e-6) << p.name;
  EXPECT_EQ(model->parameters().size(), GetParam().gradients);
}

TEST_P(RecurrentFamily, LearnsABatchByHeart) {
  FixtureAdamW optimizer(
      *model, {{"learning_rate", 0.02}, {"betas", {0.9, 0.98}}, {"eps", 1e-8}, {"weight_decay", 0}});
  std::vector<double> losses;
  for (int step = 0; step < 400; ++step) {
    const Tensor loss = model->loss(source, inputs.at("labels"), {}, context);
    losses.push_back(loss.item());
    loss.backward();
    optimizer.step();
  }
  EXPECT_GT(losses.front(), 3.0);
  EXPECT_LT(losses.back(), 0.1);
}

TEST_P(RecurrentFamily, DropoutIsForTrainingAndDrawsTheSameFromASeed) {
  const auto loss = [&](std::uint64_t seed) {
    Generator generator(seed);
    Context training{true, &generator};
    return model->loss(source, inputs.at("labels"), {}, training).item();
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
  EXPECT_NE(loss(1), model->loss(source, inputs.at("labels"), {}, context).item());
}

TEST_P(RecurrentFamily, RefusesPaddingOnTheLeftAndRowsThatAreNotThere) {
  const auto refuses = [](const auto& run, const char* message) { EXPECT_ERROR(run(), message); };
  const auto decoding = model->decode(source, context);
  decoding->reorder(std::vector<std::int64_t>{0, 0, 1, 1});
  refuses([&] { decoding->step(inputs.at("decoder_input_ids"), context); }, "decoding: expected");
  inputs["attention_mask"] = source.mask.clone();
  inputs.at("attention_mask").data<std::int64_t>()[0] = 0;
  refuses([&] { model->forward(inputs, {}, context); }, "attention_mask");
}

TEST(RecurrentConfig, ANewModelHasItsInitializerRange) {
  const char* config = R"({"model_type": "heed_recurrent", "vocab_size": 11, "hidden_size": 4,
    "initializer_range": 0.5})";
  Generator generator(1);
  const auto model = make_as<EncoderDecoderModel>(Config::parse(config, "config.json"), generator);
  float largest = 0;
  for (const Parameter& p : model->parameters()) {
    for (const float value : p.tensor.to_vector<float>()) largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, 0.5f);
  EXPECT_GT(largest, 0.45f);
}

}  // namespace
}  // namespace heed
