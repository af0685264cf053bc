// Why a head attends: the sums that the page gets are those of attribute_score(), which tests/inspect checks
// against NumPy, and their terms make the score with changed heads too.
#include "explore/views/views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "explore/numbers.h"
#include "explore/sample_models.h"
#include "heed/inspect/stream_attribution.h"
#include "reference/error.h"

namespace heed::explore_test {
namespace {

using WhyJson = nlohmann::json;

WhyJson why(explore::Explorer& explorer, const WhyJson& request) {
  return WhyJson::parse(explore::answer_to(explorer, "/api/why", request.dump(), kGoOn));
}

/// Pairs, what they leave out, and the term of positions.
double sum_of(const WhyJson& answer) {
  double sum = answer["position_bias"].get<double>() + answer["others"]["sum"].get<double>();
  for (const WhyJson& pair : answer["pairs"]) sum += pair[2].get<double>();
  return sum;
}

TEST(Why, ThePairsAreThoseOfTheAttribution) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const auto model = load_model(kFixtures / "decoders/gpt2");
  const WhyJson request{
      {"model", 0}, {"text", "5 17 300 42"}, {"kind", "decoder"}, {"layer", 1}, {"head", 3}, {"query", 3},
      {"key", 1}};
  const WhyJson answer = why(explorer, request);
  const ScoreAttribution expected = attribute_score(
      *model, {{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 17, 300, 42}, {1, 4})}},
      {.layer = 1, .head = 3, .query = 3, .key = 1});
  EXPECT_NEAR(answer["score"], expected.score, 1e-9);
  EXPECT_NEAR(answer["weight"], expected.weight, 1e-9);
  ASSERT_EQ(answer["query_parts"].size(), expected.query_parts.size());
  ASSERT_EQ(answer["key_parts"].size(), expected.key_parts.size());
  EXPECT_EQ(answer["pairs"].size() + answer["others"]["count"].get<std::size_t>(),
            expected.query_parts.size() * expected.key_parts.size());
  double last = INFINITY;
  for (const WhyJson& pair : answer["pairs"]) {
    const double value = pair[2];
    EXPECT_NEAR(value, expected.pairs[pair[0].get<std::size_t>()][pair[1].get<std::size_t>()], 1e-9);
    EXPECT_LE(std::abs(value), last);
    last = std::abs(value);
  }
  double largest_left = 0, across = 0;
  for (const double value : expected.pairs[2]) across += value;
  EXPECT_NEAR(answer["query_parts"][2]["sum"], across, 1e-9);
  for (std::size_t i = 0; i < expected.pairs.size(); ++i) {
    for (std::size_t j = 0; j < expected.pairs[i].size(); ++j) {
      const auto is_sent = [&](const WhyJson& pair) { return pair[0] == i && pair[1] == j; };
      if (std::none_of(answer["pairs"].begin(), answer["pairs"].end(), is_sent))
        largest_left = std::max(largest_left, std::abs(expected.pairs[i][j]));
    }
  }
  EXPECT_LE(largest_left, last);
  EXPECT_EQ(answer["query_parts"][0]["label"], "token");
  EXPECT_EQ(answer["query_parts"][2]["label"], "head 0.0");
}

TEST(Why, TermsAddUpToTheScoreOfTheMap) {
  const struct {
    const char *fixture, *kind;
  } cases[] = {{"decoders/llama", "decoder"}, {"decoders/bloom", "decoder"}, {"encoders/bert", "encoder"},
               {"marian", "cross"},           {"marian", "encoder"},         {"t5", "decoder"}};
  for (const auto& [fixture, kind] : cases) {
    explore::Explorer explorer = explorer_of(sample(fixture));
    WhyJson request{{"model", 0}, {"text", "5 17 9 30 11"}, {"kind", kind}, {"layer", 1}, {"head", 1},
                    {"query", 3}};
    if (fixture == std::string("marian") || fixture == std::string("t5"))
      request["target_ids"] = {3, 8, 21, 8};
    for (const bool changed : {false, true}) {
      if (changed) request["changes"] = {{{"kind", kind}, {"layer", 0}, {"head", 0}, {"factor", 0}}};
      const WhyJson answer = why(explorer, request),
                    steps = WhyJson::parse(explore::answer_to(explorer, "/api/steps", request.dump(), kGoOn));
      const std::vector<float> scores = floats_of(steps["scores"]), weights = floats_of(steps["weights"]);
      const std::size_t key = answer["key"];
      EXPECT_EQ(static_cast<std::size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin()),
                key)
          << fixture << kind;
      EXPECT_NEAR(answer["score"], scores[key], 1e-5) << fixture << kind;
      EXPECT_NEAR(sum_of(answer), scores[key], 1e-4) << fixture << kind;
    }
  }
}

TEST(Why, RefusesWhatHasNoScore) {
  explore::Explorer explorer = explorer_of(sample_decoder(), sample("decoders/transformer-linear"));
  WhyJson request{{"model", 0}, {"text", "5 17 30"}, {"kind", "decoder"},
                  {"layer", 1}, {"head", 4},         {"query", 1}};
  EXPECT_ERROR(why(explorer, request), "head.head: expected a head below 4, got 4");
  request["head"] = 0;
  request["key"] = 3;
  EXPECT_ERROR(why(explorer, request), "key: expected a position below 3, got 3");
  request["key"] = 2;
  EXPECT_ERROR(why(explorer, request),
               "attribute score: expected a key that the query at position 1 can attend to, got 2 (masked)");
  request["key"] = 0;
  request["model"] = 1;
  EXPECT_ERROR(why(explorer, request),
               "attribute score: expected a model with self_attn in its decoder that has scores");
  request["keys"] = 0;
  EXPECT_ERROR(why(explorer, request), "request: keys: expected a known key");
}

}  // namespace
}  // namespace heed::explore_test
