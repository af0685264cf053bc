// Scores of attention as sums over pairs of parts: against NumPy on what forward hooks of transformers hear
// in f64 (tests/fixtures/analysis_scores.py), and of every family, that the terms add up to the tapped score.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/inspect/record.h"
#include "heed/inspect/stream_attribution.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "models/taps_fixtures.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
const std::filesystem::path kScoreFixtures = HEED_FIXTURES;

double tolerance(double score) { return 1e-4 * std::max(1.0, std::abs(score)); }

Tensor ids_of(const Json& ids) {
  const auto all = ids.get<std::vector<std::int64_t>>();
  return Tensor::from(all, {1, std::ssize(all)});
}

// The first row of a fixture's inputs, of SigLIP 2 with the grid and the mask of its patches.
TensorMap first_row(const std::filesystem::path& folder, const std::string& name) {
  TensorMap row;
  for (const auto& [input, all] : read_tensors(folder / "inputs.safetensors"))
    if (input == name || input == "spatial_shapes" || input == "pixel_attention_mask")
      row[input] = slice(all, 0, 0, 1).contiguous();
  return row;
}

std::string name_of(const StreamPart& part) {
  std::string name = part.name;
  if (part.layer >= 0) name += "." + std::to_string(part.layer);
  if (part.head >= 0) name += "." + std::to_string(part.head);
  return name;
}

double sum_of(const ScoreAttribution& found) {
  double sum = found.position_bias;
  for (const auto& row : found.pairs) {
    for (const double value : row) sum += value;
  }
  return sum;
}

class ScoreCases : public testing::TestWithParam<Json> {};
INSTANTIATE_TEST_SUITE_P(Families, ScoreCases,
                         testing::ValuesIn(read_json(kScoreFixtures / "analysis/scores.json")),
                         [](const auto& info) {
                           const Json& c = info.param;
                           return as_test_name(c["model"].get<std::string>() + "_" +
                                               c["stack"].get<std::string>() + "_" +
                                               c["part"].get<std::string>());
                         });

TEST_P(ScoreCases, EqualHooks) {
  const Json& want = GetParam();
  const std::filesystem::path folder = kScoreFixtures / want["model"].get<std::string>();
  const auto model = load_model(folder);
  TensorMap inputs;
  for (const char* name : {"input_ids", "decoder_input_ids"})
    if (want.contains(name)) inputs[name] = ids_of(want[name]);
  if (inputs.empty()) inputs = first_row(folder, "pixel_values");
  const ScoreAttribution found = attribute_score(*model, inputs,
                                                 {.stack = want["stack"],
                                                  .part = want["part"],
                                                  .layer = want["layer"],
                                                  .head = want["head"],
                                                  .query = want["query"],
                                                  .key = want["key"].get<std::int64_t>()});
  EXPECT_EQ(found.key, want["key"]);
  EXPECT_NEAR(found.score, want["score"].get<double>(), 1e-4);
  EXPECT_NEAR(found.weight, want["weight"].get<double>(), 1e-5);
  EXPECT_NEAR(found.position_bias, want["position_bias"].get<double>(), 1e-4);
  EXPECT_NEAR(sum_of(found), found.score, tolerance(found.score));
  std::map<std::string, double> queries, keys;
  std::map<std::pair<std::string, std::string>, double> pairs;
  for (std::size_t i = 0; i < found.pairs.size(); ++i) {
    for (std::size_t j = 0; j < found.pairs[i].size(); ++j) {
      const std::string query = name_of(found.query_parts[i]), key = name_of(found.key_parts[j]);
      queries[query] += found.pairs[i][j];
      keys[key] += found.pairs[i][j];
      pairs[{query, key}] = found.pairs[i][j];
    }
  }
  EXPECT_EQ(pairs.size(), want["count"]) << "every pair has a name of its own";
  const auto compare = [](const std::map<std::string, double>& sums, const Json& expected) {
    ASSERT_EQ(sums.size(), expected.size());
    for (const auto& [part, value] : expected.items())
      EXPECT_NEAR(sums.at(part), value.get<double>(), 1e-4) << part;
  };
  compare(queries, want["query_parts"]);
  compare(keys, want["key_parts"]);
  for (const Json& pair : want["pairs"])
    EXPECT_NEAR(pairs.at({pair[0], pair[1]}), pair[2].get<double>(), 1e-4) << pair;
}

// Inputs of one row without padding.
TensorMap short_inputs(const Model& model, const std::filesystem::path& folder) {
  const InputSpec spec = model.input();
  const Tensor ids = Tensor::from<std::int64_t>({5, 6, 7, 5, 6, 9}, {1, 6});
  TensorMap inputs =
      spec.kind == InputKind::tokens ? TensorMap{{"input_ids", ids}} : first_row(folder, spec.name);
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr) inputs["decoder_input_ids"] = ids;
  return inputs;
}

class FamilyScores : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, FamilyScores, testing::ValuesIn(fixtures_with_inputs()),
                         [](const auto& info) { return as_test_name(info.param); });

TEST_P(FamilyScores, TermsAddUpToTheTappedScore) {
  const NoGradients guard;
  const std::filesystem::path folder = kScoreFixtures / GetParam();
  const auto loaded = load_model(folder);
  const auto* dual = dynamic_cast<const DualEncoderModel*>(loaded.get());
  const Model& model = dual != nullptr ? static_cast<const Model&>(dual->image()) : *loaded;
  const TensorMap inputs = short_inputs(model, folder);
  TensorMap scores, weights;
  Taps taps;
  taps.listen("*_attn.scores", [&](const std::string& name, Tensor& value) { scores[name] = value.clone(); });
  taps.listen("*_attn.weights",
              [&](const std::string& name, Tensor& value) { weights[name] = value.clone(); });
  Context context{.taps = &taps};
  model.forward(inputs, {}, context);
  if (scores.empty() || GetParam().starts_with("recurrent")) {
    EXPECT_THAT(
        error_of([&] { attribute_score(model, inputs, {}); }),
        HasSubstr("attribute score: expected a model with self_attn in its decoder that has scores, got"));
    return;
  }
  for (const auto& [name, value] : scores) {
    const std::size_t layers = name.find(".layers.");
    ScoreOptions options{.stack = name.substr(0, layers), .layer = std::stoll(name.substr(layers + 8))};
    options.part = name.find("cross_attn") != std::string::npos ? "cross_attn" : "self_attn";
    options.head = value.size(1) - 1;
    options.query = value.size(2) - 2;
    const ScoreAttribution found = attribute_score(model, inputs, options);
    const std::int64_t at = (options.head * value.size(2) + options.query) * value.size(3) + found.key;
    const auto row = doubles(weights.at(name.substr(0, name.size() - 6) + "weights"));
    EXPECT_NEAR(found.score, doubles(value)[static_cast<std::size_t>(at)], 1e-5) << name;
    EXPECT_NEAR(found.weight, row[static_cast<std::size_t>(at)], 1e-6) << name;
    const auto first = row.begin() + (at - found.key);
    EXPECT_EQ(found.weight, *std::max_element(first, first + value.size(3))) << name << " the strongest key";
    EXPECT_NEAR(sum_of(found), found.score, tolerance(found.score)) << name;
    EXPECT_EQ(found.query_parts.back().name, "bias");
    EXPECT_EQ(found.key_parts.back().name, "bias");
    const bool positions =
        GetParam().find("bloom") != std::string::npos || GetParam().find("mpt") != std::string::npos;
    if (positions && found.key != options.query) {
      EXPECT_LT(found.position_bias, 0) << "ALiBi";
    }
  }
}

TEST(ScoreErrors, NameWhatIsWrong) {
  const auto gpt2 = load_model(kScoreFixtures / "decoders/gpt2");
  const TensorMap inputs{{"input_ids", Tensor::from<std::int64_t>({5, 6, 7}, {1, 3})}};
  const auto why = [&](const ScoreOptions& options) { return attribute_score(*gpt2, inputs, options); };
  EXPECT_ERROR(why({.layer = 2}), "attribute score: expected a layer below 2, got 2");
  EXPECT_ERROR(why({.head = 4}), "attribute score: expected a head below 4, got 4");
  EXPECT_ERROR(why({.head = -1}), "attribute score: expected a head below 4, got -1");
  EXPECT_ERROR(why({.query = 3}), "attribute score: query: expected a position below 3, got 3");
  EXPECT_ERROR(why({.query = 2, .key = 3}), "attribute score: key: expected a position below 3, got 3");
  EXPECT_ERROR(why({.query = 1, .key = 2}),
               "attribute score: expected a key that the query at position 1 can attend to, got 2 (masked)");
  EXPECT_ERROR(why({.stack = "encoder"}), "attribute score: expected a model with self_attn in its encoder");
  EXPECT_ERROR(why({.part = "cross_attn"}),
               "attribute score: expected a model with cross_attn in its decoder");
}

}  // namespace
}  // namespace heed
