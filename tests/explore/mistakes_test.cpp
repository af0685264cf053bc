// Mistakes against the same ones in Hugging Face's code (tests/fixtures/traps.py).
#include "explore/views/views.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "explore/numbers.h"
#include "explore/sample_models.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed::explore_test {
namespace {

using TrapsJson = nlohmann::json;

TrapsJson traps(explore::Explorer& explorer, const TrapsJson& request) {
  return TrapsJson::parse(explore::answer_to(explorer, "/api/traps", request.dump(), kGoOn));
}

const TrapsJson& prediction_at(const TrapsJson& run, std::int64_t position) {
  for (const TrapsJson& one : run["predictions"]) {
    if (one["position"] == position) return one;
  }
  throw Error("no prediction there");
}

TrapsJson request_of(const TrapsJson& file, const TrapsJson& one) {
  TrapsJson ids = file["ids"];
  const bool masked = one["fixture"] == "encoders/bert-mlm", pairs = one["fixture"] == "t5";
  if (masked) ids[3] = file["mask"];
  TrapsJson request{{"model", 0},
                    {"ids", pairs ? file["source"] : ids},
                    {"kind", masked ? "encoder" : "decoder"},
                    {"layer", file["layer"]},
                    {"head", file["head"]},
                    {"traps", one["traps"]},
                    {"candidates", one["ids"].size()}};
  if (pairs) request["target_ids"] = file["target"];
  if (one["traps"][0] == "exchange") request["exchange"] = {2, 5};
  return request;
}

TEST(Traps, AreThoseOfTransformers) {
  const TrapsJson file = read_json(kFixtures / "explore" / "traps.json");
  std::size_t compared = 0;
  for (const TrapsJson& one : file["cases"]) {
    const std::string name = one["fixture"].get<std::string>() + " " + one["traps"].dump();
    explore::Explorer explorer = explorer_of(sample(one["fixture"], false, file["mask"].get<std::int64_t>()));
    const TrapsJson answer = traps(explorer, request_of(file, one));
    const TrapsJson& wrong = answer["wrong"];
    const std::vector<float> map = floats_of(wrong["map"]);
    ASSERT_EQ(map.size(), one["map"].size()) << name;
    for (std::size_t i = 0; i < map.size(); ++i)
      EXPECT_NEAR(map[i], one["map"][i], 1e-4) << name << " weight " << i;
    const TrapsJson& candidates = prediction_at(wrong, one["position"])["candidates"];
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_EQ(candidates[i]["id"], one["ids"][i]) << name;
      EXPECT_NEAR(candidates[i]["logit"], one["logits"][i], 1e-4) << name;
    }
    if (one["loss"].is_null()) {
      EXPECT_TRUE(wrong["loss"].is_null()) << name;
    } else {
      EXPECT_NEAR(wrong["loss"], one["loss"], 1e-4) << name;
    }
    EXPECT_GT(answer["difference"].get<double>(), 1e-3) << name << " differs from the sound run";
    EXPECT_EQ(answer["checks"].size(), one["traps"].size()) << name;
    ++compared;
  }
  EXPECT_GE(compared, 17u);
}

TEST(Traps, TheSoundRunIsTheModels) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const TrapsJson answer = traps(explorer, {{"model", 0},
                                            {"text", "5 17 300 42"},
                                            {"kind", "decoder"},
                                            {"layer", 1},
                                            {"head", 0},
                                            {"traps", {"scale"}}});
  const TrapsJson run = TrapsJson::parse(
      explore::answer_to(explorer, "/api/run", R"({"model": 0, "text": "5 17 300 42"})", kGoOn));
  EXPECT_EQ(answer["sound"]["predictions"], run["predictions"]);
}

/// Without positions and without a mask, the same tokens in another order make the same last output.
TEST(Traps, WithoutPositionsOrderIsInvisible) {
  for (const char* fixture : {"decoders/gpt2", "decoders/llama", "decoders/bloom", "decoders/mpt"}) {
    explore::Explorer explorer = explorer_of(sample(fixture));
    TrapsJson request{{"model", 0}, {"text", "5 17 300 42"},         {"kind", "decoder"}, {"layer", 0},
                      {"head", 0},  {"traps", {"positions", "mask"}}};
    const TrapsJson plain = traps(explorer, request);
    request["traps"].push_back("exchange");
    request["exchange"] = {0, 2};
    const TrapsJson other = traps(explorer, request);
    const TrapsJson &a = prediction_at(plain["wrong"], 3)["candidates"],
                    &b = prediction_at(other["wrong"], 3)["candidates"];
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(a[i]["logit"], b[i]["logit"], 1e-4) << fixture;
    EXPECT_EQ(other["wrong"]["queries"], (TrapsJson{"t300", "t17", "t5", "t42"}));
  }
}

TEST(Traps, ColumnsOfTheWrongAxisSumToOne) {
  explore::Explorer explorer = explorer_of(sample("t5"));
  const TrapsJson answer = traps(explorer, {{"model", 0},
                                            {"text", "5 17 9 30"},
                                            {"target_ids", {3, 8, 21}},
                                            {"kind", "cross"},
                                            {"layer", 1},
                                            {"head", 1},
                                            {"traps", {"softmax-axis"}}});
  const std::vector<float> map = floats_of(answer["wrong"]["map"]);
  const std::size_t keys = answer["wrong"]["keys"].size(), queries = answer["wrong"]["queries"].size();
  for (std::size_t k = 0; k < keys; ++k) {
    double sum = 0;
    for (std::size_t q = 0; q < queries; ++q) sum += map[q * keys + k];
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST(Traps, RefusesMistakesThatAModelCannotMake) {
  explore::Explorer explorer = explorer_of(sample("encoders/bert"), sample("t5"),
                                           sample("decoders/transformer-linear"), sample_of_files("vit"));
  TrapsJson request{{"model", 0}, {"text", "5 17 9"}, {"kind", "encoder"},
                    {"layer", 0}, {"head", 0},        {"traps", {"mask"}}};
  EXPECT_ERROR(traps(explorer, request),
               "traps: mask: expected a decoder, whose mask hides later tokens (an encoder sees them "
               "anyway), got bert");
  request["traps"] = {"exchange"};
  EXPECT_ERROR(traps(explorer, request),
               "exchange: expected two positions with the trap exchange, and none without");
  request["exchange"] = {0, 9};
  EXPECT_ERROR(traps(explorer, request), "exchange: expected a position below 3, got 9");
  request["exchange"] = {0};
  EXPECT_ERROR(traps(explorer, request), "request: exchange: expected two positions");
  request.erase("exchange");
  request["traps"] = {"gravity"};
  EXPECT_ERROR(traps(explorer, request),
               "traps: expected positions, mask, softmax-axis, scale or exchange, got gravity");
  request["model"] = 1;
  request["traps"] = {"scale"};
  EXPECT_ERROR(traps(explorer, request),
               "traps: scale: expected a model that multiplies scores by a scale, got t5");
  request["model"] = 2;
  request["kind"] = "decoder";
  request["traps"] = {"softmax-axis"};
  EXPECT_ERROR(traps(explorer, request), "traps: softmax-axis: expected a model with softmax attention");
}

}  // namespace
}  // namespace heed::explore_test
