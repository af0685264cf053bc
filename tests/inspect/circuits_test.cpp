// Circuits of weights against NumPy's in f64, of whole matrices [D, D] and [V, V] (tests/fixtures/analysis).
#include "heed/inspect/circuits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/nn/attention.h"
#include "heed/nn/stack.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using Json = nlohmann::json;
const std::filesystem::path kModels = HEED_FIXTURES;

const Json& references() {
  static const Json all = read_json(kModels / "analysis" / "circuits.json");
  return all;
}

std::vector<std::string> reference_names() {
  std::vector<std::string> names;
  for (const auto& [name, reference] : references().items()) names.push_back(name);
  return names;
}

const char* stack_of(const std::string& model) {
  return model.starts_with("encoders") ? "encoder" : "decoder";
}

class CircuitsOf : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Model> model = load_model(kModels / GetParam());
  const Json& expected = references().at(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Families, CircuitsOf, testing::ValuesIn(reference_names()), [](const auto& info) {
  std::string name = info.param.substr(info.param.find('/') + 1);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

void expect_values(const std::vector<double>& values, const Json& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i].get<double>(), 1e-4 * std::max(1.0, expected[0].get<double>())) << i;
}

TEST_P(CircuitsOf, HeadsEqualWholeMatrices) {
  const Circuits found = weight_circuits(*model, {.stack = stack_of(GetParam()), .compositions = false});
  ASSERT_EQ(found.heads.size(), expected["heads"].size());
  for (std::size_t i = 0; i < found.heads.size(); ++i) {
    const HeadCircuit& head = found.heads[i];
    const Json& wanted = expected["heads"][i];
    SCOPED_TRACE(std::to_string(head.head.layer) + "." + std::to_string(head.head.head));
    EXPECT_EQ(head.head, (HeadIndex{wanted["layer"], wanted["head"]}));
    expect_values(head.ov, wanted["ov"]);
    expect_values(head.qk, wanted["qk"]);
    ASSERT_EQ(head.copying.has_value(), wanted.contains("copying"));
    EXPECT_NEAR(head.copying.value_or(0), wanted.value("copying", 0.0), 1e-4);
  }
}

// With W_U as it is in the file, scores are those of it alone.
TEST_P(CircuitsOf, CopyingWithoutTheFinalNorm) {
  const Circuits found = weight_circuits(
      *model, {.stack = stack_of(GetParam()), .compositions = false, .fold_final_norm = false});
  for (std::size_t i = 0; i < found.heads.size(); ++i)
    EXPECT_NEAR(found.heads[i].copying.value_or(0), expected["heads"][i].value("copying_unfolded", 0.0),
                1e-4);
}

TEST_P(CircuitsOf, CompositionsEqualWholeMatrices) {
  const Circuits found = weight_circuits(*model, {.stack = stack_of(GetParam())});
  ASSERT_EQ(found.compositions.size(), expected["compositions"].size());
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, double> scores;
  double last = 2;
  for (const Composition& one : found.compositions) {
    EXPECT_LE(one.score, last);
    last = one.score;
    scores[{static_cast<int>(one.kind), one.from.layer, one.from.head, one.to.layer, one.to.head}] =
        one.score;
  }
  for (const Json& one : expected["compositions"]) {
    const int kind = one[0] == "Q" ? 0 : one[0] == "K" ? 1 : 2;
    EXPECT_NEAR((scores.at({kind, one[1], one[2], one[3], one[4]})), one[5].get<double>(), 1e-4);
  }
}

// The compositions of one head are those of all heads that have it at either end.
TEST(Circuits, CompositionsOfOneHead) {
  const auto model = load_model(kModels / "decoders/gemma2");
  const HeadIndex head{1, 2};
  const Circuits all = weight_circuits(*model, {}), own = weight_circuits(*model, {.of_head = head});
  std::vector<double> wanted;
  for (const Composition& one : all.compositions) {
    if (one.from == head || one.to == head) wanted.push_back(one.score);
  }
  ASSERT_EQ(own.compositions.size(), wanted.size());
  ASSERT_EQ(wanted.size(), 24u);  // 4 heads before and 4 behind, three kinds
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(own.compositions[i].score, wanted[i], 1e-6);
  EXPECT_NEAR(all.baseline, 1 / std::sqrt(32.0), 1e-12);
}

// Of GPT-2, whose positions are a table, a head is made to look at the token before: its queries are a
// position and its keys the next one's.
TEST(Circuits, OffsetOfAHeadThatLooksBack) {
  const auto model = load_model(kModels / "decoders/gpt2");
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& one : model->parameters()) {
      if (one.name == name) return one.tensor;
    }
    throw Error("no " + name);
  };
  constexpr std::int64_t kWidth = 48, kHead = 12, kHeads = 4;
  // Position p is a point on circles of several frequencies, which a rotation takes to that of p + 1.
  float* positions = parameter("transformer.wpe.weight").data<float>();
  const std::int64_t count = parameter("transformer.wpe.weight").size(0);
  const auto angle = [](std::int64_t pair) { return 0.9 / std::pow(1.7, static_cast<double>(pair)); };
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t i = 0; i < kWidth; ++i) positions[p * kWidth + i] = 0;
    for (std::int64_t pair = 0; pair < kHead / 2; ++pair) {
      positions[p * kWidth + 2 * pair] =
          static_cast<float>(10 * std::cos(angle(pair) * static_cast<double>(p)));
      positions[p * kWidth + 2 * pair + 1] =
          static_cast<float>(10 * std::sin(angle(pair) * static_cast<double>(p)));
    }
  }
  constexpr std::int64_t kFused = 3 * kWidth, kLooking = 2;
  float* weight = parameter("transformer.h.0.attn.c_attn.weight").data<float>();  // [in, out]
  float* bias = parameter("transformer.h.0.attn.c_attn.bias").data<float>();
  float* gain = parameter("transformer.h.0.ln_1.weight").data<float>();
  float* shift = parameter("transformer.h.0.ln_1.bias").data<float>();
  for (std::int64_t i = 0; i < kWidth; ++i) {
    gain[i] = 1;
    shift[i] = 0;
    for (std::int64_t j = 0; j < kHead; ++j) {
      const std::int64_t query = kLooking * kHead + j, key = kWidth + query;
      bias[query] = bias[key] = 0;
      const std::int64_t pair = j / 2;
      const double turn = angle(pair), cosine = std::cos(turn), sine = std::sin(turn);
      double rotated = 0;  // the query of p is the point of p - 1
      if (i == 2 * pair) rotated = j % 2 == 0 ? cosine : -sine;
      if (i == 2 * pair + 1) rotated = j % 2 == 0 ? sine : cosine;
      weight[i * kFused + query] = static_cast<float>(6 * rotated);
      weight[i * kFused + key] = i == j ? 6.0F : 0.0F;
    }
  }
  const Circuits found = weight_circuits(*model, {.compositions = false});
  const HeadCircuit& head = found.heads[kLooking];
  ASSERT_TRUE(head.offset.has_value());
  EXPECT_EQ(*head.offset, 1);
  EXPECT_GT(head.at_offset, 0.5);
  ASSERT_EQ(found.heads.size(), 2u * kHeads);
  EXPECT_TRUE(head.biased);
  EXPECT_FALSE(head.rotated);
}

TEST(Circuits, DirectionsReadAndWriteTokens) {
  const auto model = load_model(kModels / "decoders/llama");
  const auto directions = circuit_directions(*model, "decoder", {1, 3}, 4, 5);
  const Circuits circuits = weight_circuits(*model, {.compositions = false});
  ASSERT_EQ(directions.size(), 4u);
  for (std::size_t i = 0; i < directions.size(); ++i) {
    EXPECT_NEAR(directions[i].value, circuits.heads[7].ov[i], 1e-5);
    ASSERT_EQ(directions[i].reads.size(), 5u);
    ASSERT_EQ(directions[i].writes.size(), 5u);
    EXPECT_GT(directions[i].reads.front().score, 0);
    for (std::size_t t = 1; t < 5; ++t)
      EXPECT_LE(directions[i].reads[t].score, directions[i].reads[t - 1].score);
  }
}

TEST(Circuits, WhatTheyRefuse) {
  const auto llama = load_model(kModels / "decoders/llama");
  EXPECT_ERROR(weight_circuits(*llama, {.stack = "encoder"}), "expected a model with self-attention");
  EXPECT_ERROR(weight_circuits(*llama, {.of_head = HeadIndex{1, 4}}),
               "circuits: expected a head of layers up to 1 with 4 heads each, got 1.4");
  const auto linear = load_model(kModels / "decoders/transformer-linear");
  EXPECT_ERROR(weight_circuits(*linear, {}), "expected a model with self-attention by softmax");
  const auto bert = load_model(kModels / "encoders/bert-mlm");
  EXPECT_ERROR(circuit_directions(*bert, "encoder", {0, 0}, 1, 1),
               "expected a stack that reads tokens and predicts them, got the encoder of bert");
}

}  // namespace
}  // namespace heed
