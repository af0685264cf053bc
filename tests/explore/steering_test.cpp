// Steering by listeners: runs are those of the model that --steer of other commands steers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explore/sample_models.h"
#include "heed/io/safetensors.h"
#include "heed/models/steering.h"
#include "reference/error.h"
#include "reference/pack.h"
#include "reference/temporary_folder.h"

namespace heed::explore_test {
namespace {

using SteeredJson = nlohmann::json;

Tensor direction(std::int64_t width, int seed) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < width; ++i)
    numbers.push_back(static_cast<float>((i * 37 + seed * 11) % 19 - 9) / 9);
  return Tensor::from(numbers, {width});
}

explore::ExploredModel steered(const std::string& fixture, const std::filesystem::path& file,
                               double strength) {
  const LocatedModel located{kFixtures / fixture, {}, {{file, strength}}};
  return {fixture, load_model(located), std::make_unique<NumberTokenizer>(false),
          load_generation_options(kFixtures / fixture)};
}

explore::ExploredModel offering(const std::string& fixture, const std::filesystem::path& file, double most) {
  explore::ExploredModel model = sample(fixture);
  model.offer_steering({file, most});
  return model;
}

SteeredJson ran(explore::Explorer& explorer, const SteeredJson& request) {
  return SteeredJson::parse(explore::answer_to(explorer, "/api/run", request.dump(), kGoOn));
}

void expect_equal_runs(const explore::Explorer& explorer, const SteeredJson& got, const SteeredJson& expected,
                       const std::string& name) {
  EXPECT_EQ(got["target_ids"], expected["target_ids"]) << name;
  ASSERT_EQ(got["predictions"].size(), expected["predictions"].size()) << name;
  for (std::size_t row = 0; row < got["predictions"].size(); ++row) {
    const SteeredJson &a = got["predictions"][row]["candidates"],
                      &b = expected["predictions"][row]["candidates"];
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i]["logit"], b[i]["logit"], 1e-5) << name << " row " << row;
  }
  for (std::size_t k = 0; k < got["data"]["kinds"].size(); ++k) {
    const SteeredJson &a = got["data"]["kinds"][k]["maps"], &b = expected["data"]["kinds"][k]["maps"];
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i]["largest"], b[i]["largest"], 1e-5) << name;
      const auto one = codes_of_pack(explorer.chunk(got["run"], a[i]["pack"]).value(), 16),
                 other = codes_of_pack(explorer.chunk(expected["run"], b[i]["pack"]).value(), 16);
      ASSERT_EQ(one.size(), other.size());
      for (std::size_t cell = 0; cell < one.size(); ++cell) EXPECT_NEAR(one[cell], other[cell], 2) << name;
    }
  }
}

TEST(Steering, RunsAreThoseOfTheSteeredModel) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  const struct {
    const char *fixture, *stack;
  } cases[] = {{"decoders/gpt2", "decoder"},
               {"decoders/llama", "decoder"},
               {"encoders/bert-mlm", "encoder"},
               {"marian", "encoder"},
               {"marian", "decoder"}};
  for (const auto& one : cases) {
    save_steering(file, {{one.stack, 0, direction(48, 1)}, {one.stack, 1, direction(48, 2)}}, "", {});
    explore::Explorer explorer =
        explorer_of(offering(one.fixture, file, 3), steered(one.fixture, file, -0.75));
    SteeredJson request{{"model", 0}, {"text", "5 17 9 30 11"}, {"steering", {-0.75}}};
    const SteeredJson got = ran(explorer, request);
    request.erase("steering");
    const SteeredJson before = ran(explorer, request);
    request["model"] = 1;
    const SteeredJson expected = ran(explorer, request);
    expect_equal_runs(explorer, got, expected, one.fixture);
    EXPECT_NE(before["data"], got["data"]) << one.fixture;
    if (!got["predictions"].empty()) {
      EXPECT_TRUE(got["predictions"][0]["candidates"][0].contains("change"));
    }
  }
}

TEST(Steering, IsAPartOfTheFlowAndOfAScore) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  save_steering(file, {{"decoder", 0, direction(48, 3)}, {"decoder", 1, direction(48, 4)}}, "", {});
  explore::Explorer explorer =
      explorer_of(offering("decoders/gpt2", file, 3), steered("decoders/gpt2", file, 0.5));
  SteeredJson flow{{"model", 0}, {"text", "5 17 300"}, {"stack", "decoder"}, {"position", 2},
                   {"id", 7},    {"steering", {0.5}}};
  const SteeredJson answer =
      SteeredJson::parse(explore::answer_to(explorer, "/api/flow", flow.dump(), kGoOn));
  double sum = 0;
  std::size_t steering = 0;
  for (const SteeredJson& part : answer["parts"]) {
    if (!part["effect"].is_null()) sum += part["effect"].get<double>();
    steering += part["name"] == "steering" ? 1 : 0;
  }
  EXPECT_NEAR(sum, answer["logit"], 1e-4);
  EXPECT_EQ(steering, 2u);
  SteeredJson why{{"model", 0}, {"text", "5 17 300"}, {"kind", "decoder"}, {"layer", 1},
                  {"head", 2},  {"query", 2},         {"key", 1},          {"steering", {0.5}}};
  const SteeredJson got = SteeredJson::parse(explore::answer_to(explorer, "/api/why", why.dump(), kGoOn));
  why.erase("steering");
  why["model"] = 1;
  const SteeredJson expected =
      SteeredJson::parse(explore::answer_to(explorer, "/api/why", why.dump(), kGoOn));
  EXPECT_NEAR(got["score"], expected["score"], 1e-5);
  ASSERT_EQ(got["key_parts"].size(), expected["key_parts"].size());
  for (std::size_t i = 0; i < got["key_parts"].size(); ++i) {
    EXPECT_EQ(got["key_parts"][i]["label"], expected["key_parts"][i]["label"]);
    EXPECT_NEAR(got["key_parts"][i]["sum"], expected["key_parts"][i]["sum"], 1e-5);
  }
}

TEST(Steering, WhatDoesNotFit) {
  const TemporaryFolder folder;
  const auto file = folder / "v.safetensors";
  const auto offer = [&](const std::string& tensor, std::int64_t width) {
    save_safetensors(file, {{tensor, direction(width, 1)}});
    offering("decoders/gpt2", file, 1);
  };
  EXPECT_ERROR(
      offer("direction.1", 47),
      file.string() + ": direction.1: expected a vector of 48 numbers, as many as the model's stream has");
  EXPECT_ERROR(offer("decoder.layers.2.out", 48), ": decoder.layers.2.out: expected a layer below 2");
  EXPECT_ERROR(offer("encoder.layers.1.out", 48),
               "expected a layer of the stack decoder, got one of encoder");
  offer("direction.1", 48);
  explore::Explorer explorer = explorer_of(offering("decoders/gpt2", file, 1.5));
  const SteeredJson models = SteeredJson::parse(explorer.models());
  EXPECT_EQ(models["models"][0]["steering"],
            SteeredJson::parse(R"([{"name": "v.safetensors", "most": 1.5, "layers": "layer 1"}])"));
  EXPECT_ERROR(ran(explorer, {{"model", 0}, {"text", "5 6"}, {"steering", {1, 2}}}),
               "steering: expected at most 1 strengths, as many as decoders/gpt2 has vectors, got 2");
  EXPECT_ERROR(ran(explorer, {{"model", 0}, {"text", "5 6"}, {"steering", {1e9}}}),
               "request: steering.0: expected a number from -1000000 to 1000000, got 1000000000.0");
  EXPECT_ERROR(ran(explorer, {{"model", 0}, {"text", "5 6"}, {"steering", "much"}}),
               "request: steering: expected");
}

}  // namespace
}  // namespace heed::explore_test
