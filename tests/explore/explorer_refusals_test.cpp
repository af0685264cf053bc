// What an explorer refuses, and what it says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explore/explorer.h"
#include "explore/sample_models.h"
#include "reference/error.h"

namespace heed::explore_test {
namespace {

using RefusedRequest = nlohmann::json;

std::string refusal_of(explore::Explorer& explorer, const RefusedRequest& request, bool ablation = false) {
  return error_of([&] {
    ablation ? explore::answer_to(explorer, "/api/ablation", request.dump(), kGoOn)
             : explore::answer_to(explorer, "/api/run", request.dump(), kGoOn);
  });
}

TEST(Explorer, SaysHowManyTokensFit) {
  // 2 layers of 4 heads and their rollout: 10 maps.
  explore::Explorer explorer = explorer_of(sample("decoders/bloom"));
  std::string text;
  for (int i = 0; i < 2500; ++i) text += "5 ";
  EXPECT_EQ(
      refusal_of(explorer, {{"model", 0}, {"text", text}}),
      "text: expected at most 2449 tokens, got 2500 (the maps of all heads take too much memory: choose a "
      "shorter text)");
}

TEST(Explorer, RefusesWhatTheModelLacks) {
  explore::Explorer explorer =
      explorer_of(sample_decoder(), sample_encoder_decoder(), sample("encoders/bert", true));
  const auto changed = [](const RefusedRequest& change) {
    return RefusedRequest{{"model", 0}, {"text", "5 6 7"}, {"changes", {change}}};
  };
  EXPECT_EQ(refusal_of(explorer, {{"model", 3}, {"text", "5"}}), "model: expected a number below 3, got 3");
  EXPECT_EQ(refusal_of(explorer, {{"model", 1}, {"ids", RefusedRequest::array()}}),
            "text: expected at least one token");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"ids", std::vector<int>(65, 5)}}),
            "ids: expected at most 64 tokens, got 65");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"ids", {512}}}),
            "ids: expected token ids below 512, got 512");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"text", "5"}, {"pair", "6"}}),
            "pair: expected an encoder, got the decoder decoders/gpt2");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"text", "5"}, {"target", "6"}}),
            "target: expected an encoder-decoder, got the decoder decoders/gpt2");
  EXPECT_EQ(refusal_of(explorer, changed({{"kind", "cross"}, {"layer", 0}, {"head", 0}, {"factor", 0}})),
            "changes.0.kind: expected decoder, which the model has, got cross");
  EXPECT_EQ(refusal_of(explorer, changed({{"kind", "decoder"}, {"layer", 2}, {"head", 0}, {"factor", 0}})),
            "changes.0.layer: expected a layer below 2, got 2");
  EXPECT_EQ(refusal_of(explorer, changed({{"kind", "decoder"}, {"layer", 0}, {"head", 4}, {"factor", 0}})),
            "changes.0.head: expected a head below 4, got 4");
  EXPECT_EQ(refusal_of(explorer,
                       changed({{"kind", "decoder"}, {"layer", 0}, {"head", 0}, {"patch", {{"text", "5"}}}})),
            "changes.0.patch: expected a text of as many tokens (3), got 1");
  const RefusedRequest ablation{{"model", 0}, {"text", "5 6"}, {"position", 2}, {"id", 1}};
  EXPECT_EQ(refusal_of(explorer, ablation, true), "position: expected one below 2, got 2");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"text", "5 6"}, {"id", 512}}, true),
            "id: expected one below 512, got 512");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"text", "5 6"}, {"id", 1}, {"kind", "encoder"}}, true),
            "kind: expected decoder, which the model has, got encoder");
  EXPECT_EQ(refusal_of(explorer,
                       {{"model", 0}, {"text", "5 6"}, {"id", 1}, {"kind", "decoder"}, {"layer", 9}}, true),
            "layer: expected a layer below 2, got 9");
  EXPECT_EQ(refusal_of(explorer, {{"model", 0}, {"text", "5 6"}, {"id", 1}, {"layer", 77}}, true),
            "layer: expected a layer below 2, got 77");
  EXPECT_EQ(refusal_of(explorer, {{"model", 2}, {"text", "5 6"}, {"id", 1}}, true),
            "ablation: expected a model with logits, got encoders/bert without");
}

TEST(Explorer, RefusesTextsWithoutTokens) {
  explore::Explorer explorer = explorer_of(sample("decoders/qwen2"), sample_encoder_decoder());
  for (const int model : {0, 1})
    EXPECT_EQ(refusal_of(explorer, {{"model", model}, {"text", ""}}), "text: expected at least one token");
}

}  // namespace
}  // namespace heed::explore_test
