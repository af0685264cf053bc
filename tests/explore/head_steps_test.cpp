// The steps of a head, computed here once more from the numbers that are sent.
#include "explore/views/views.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "explore/numbers.h"
#include "explore/sample_models.h"
#include "reference/error.h"
#include "reference/pack.h"

namespace heed::explore_test {
namespace {

using StepsJson = nlohmann::json;

StepsJson steps(explore::Explorer& explorer, const StepsJson& request) {
  return StepsJson::parse(explore::answer_to(explorer, "/api/steps", request.dump(), kGoOn));
}

/// softmax(cap(scale q k) + positions) v, with the mask where scores are -inf.
void expect_steps(const StepsJson& answer, const std::string& name) {
  const auto of = [&](const char* key) { return floats_of(answer[key]); };
  const std::vector<float> q = of("q"), k = of("k"), v = of("v"), scores = of("scores"),
                           weights = of("weights"), output = of("output");
  const std::vector<float> positions =
      answer["positions"].is_null() ? std::vector<float>(scores.size()) : of("positions");
  const std::size_t keys = answer["keys"].size(), d = answer["dims"];
  ASSERT_EQ(scores.size(), keys) << name;
  ASSERT_EQ(k.size(), keys * d) << name;
  const double scale = answer["scale"], cap = answer["cap"];
  double sum = 0, read = 0;
  for (std::size_t s = 0; s < keys; ++s) {
    double score = 0;
    for (std::size_t i = 0; i < d; ++i) score += static_cast<double>(q[i]) * k[s * d + i];
    score *= scale;
    if (cap > 0) score = cap * std::tanh(score / cap);
    if (std::isfinite(scores[s])) {
      EXPECT_NEAR(score + positions[s], scores[s], 1e-4) << name << " key " << s;
      sum += std::exp(static_cast<double>(scores[s]));
    } else {
      EXPECT_EQ(weights[s], 0) << name;
    }
  }
  for (std::size_t s = 0; s < keys; ++s)
    EXPECT_NEAR(std::exp(static_cast<double>(scores[s])) / sum, weights[s], 1e-5) << name;
  const std::size_t width = v.size() / keys;
  for (std::size_t i = 0; i < width; ++i) {
    read = 0;
    for (std::size_t s = 0; s < keys; ++s) read += static_cast<double>(weights[s]) * v[s * width + i];
    EXPECT_NEAR(read, output[i], 1e-4) << name << " output " << i;
  }
}

TEST(HeadSteps, TheNumbersOfEveryKindOfPositionsMakeTheOutput) {
  const struct {
    const char *fixture, *kind;
    bool positions, rotary;
  } cases[] = {{"decoders/gpt2", "decoder", false, false},
               {"decoders/llama", "decoder", false, true},
               {"decoders/gpt-neox", "decoder", false, true},
               {"decoders/bloom", "decoder", true, false},
               {"decoders/gemma2", "decoder", false, true},
               {"decoders/mpt", "decoder", true, false},
               {"encoders/bert", "encoder", false, false},
               {"encoders/deberta-v3-mlm", "encoder", true, false},
               {"marian", "cross", false, false},
               {"t5", "encoder", true, false},
               {"t5", "cross", false, false}};
  for (const auto& one : cases) {
    explore::Explorer explorer = explorer_of(sample(one.fixture));
    StepsJson request{{"model", 0}, {"text", "5 17 9 30 11"}, {"kind", one.kind}, {"layer", 1}, {"head", 2},
                      {"query", 3}};
    if (one.fixture == std::string("marian") || one.fixture == std::string("t5"))
      request["target_ids"] = {3, 8, 21, 8};
    const StepsJson answer = steps(explorer, request);
    expect_steps(answer, one.fixture);
    EXPECT_EQ(!answer["positions"].is_null(), one.positions) << one.fixture;
    EXPECT_EQ(answer["rotary"], one.rotary) << one.fixture;
    EXPECT_EQ(answer["query"], 3);
  }
}

TEST(HeadSteps, RotationIsTurnedBack) {
  explore::Explorer explorer = explorer_of(sample("decoders/llama"));
  const StepsJson answer = steps(
      explorer,
      {{"model", 0}, {"text", "5 17 9 30"}, {"kind", "decoder"}, {"layer", 1}, {"head", 1}, {"query", 2}});
  const std::vector<float> k = floats_of(answer["k"]), before = floats_of(answer["k_before"]);
  ASSERT_EQ(k.size(), before.size());
  const std::size_t d = answer["dims"];
  for (std::size_t i = 0; i < d; ++i) EXPECT_NEAR(k[i], before[i], 1e-6) << "position 0 is not rotated";
  for (std::size_t s = 0; s < 4;
       ++s) {  // halves: pairs (i, i + d / 2) keep their length, and turn by position
    for (std::size_t i = 0; i < d / 2; ++i) {
      const std::size_t a = s * d + i, b = a + d / 2;
      EXPECT_NEAR(std::hypot(k[a], k[b]), std::hypot(before[a], before[b]), 1e-5);
    }
    const double turned =
        std::atan2(k[s * d + d / 2], k[s * d]) - std::atan2(before[s * d + d / 2], before[s * d]);
    EXPECT_NEAR(std::cos(turned), std::cos(static_cast<double>(s)), 1e-4)
        << "the first pair turns by 1 a position";
  }
}

TEST(HeadSteps, WeightsAreThoseOfTheMap) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const StepsJson answer = steps(
      explorer,
      {{"model", 0}, {"text", "5 17 300 42"}, {"kind", "decoder"}, {"layer", 0}, {"head", 3}, {"query", 3}});
  const StepsJson run = StepsJson::parse(
      explore::answer_to(explorer, "/api/run", R"({"model": 0, "text": "5 17 300 42"})", kGoOn));
  const std::vector<float> weights = floats_of(answer["weights"]);
  bool found = false;
  for (const StepsJson& map : run["data"]["kinds"][0]["maps"]) {
    if (map["measure"] != "weights" || map["layer"] != 0 || map["head"] != 3) continue;
    found = true;
    const std::vector<int> codes = codes_of_pack(explorer.chunk(run["run"], map["pack"]).value(), 16);
    for (std::size_t s = 0; s < 4; ++s)
      EXPECT_NEAR(codes[12 + s] * map["largest"].get<double>() / 65535, weights[s], 2e-5);
  }
  EXPECT_TRUE(found);
}

TEST(HeadSteps, RefusesWhatIsNotThere) {
  explore::Explorer explorer = explorer_of(sample_decoder(), sample("decoders/transformer-linear"));
  StepsJson request{{"model", 0}, {"text", "5 17 30"}, {"kind", "decoder"},
                    {"layer", 1}, {"head", 4},         {"query", 2}};
  EXPECT_ERROR(steps(explorer, request), "head.head: expected a head below 4, got 4");
  request["head"] = 0;
  request["query"] = 3;
  EXPECT_ERROR(steps(explorer, request), "query: expected a position below 3, got 3");
  request["query"] = 0;
  request["model"] = 1;
  EXPECT_ERROR(steps(explorer, request), "head: expected an attention with a softmax of scores");
}

}  // namespace
}  // namespace heed::explore_test
