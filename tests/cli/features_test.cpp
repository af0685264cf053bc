// heed features: its tables and JSON, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
const std::string kCoders = std::string(HEED_FIXTURES) + "/features/";

// A tiny GPT-2 with a tokenizer, beside which the coders lie.
const std::string& model() {
  static const Folder folder;
  static const std::string path = [] {
    const std::string fixtures = HEED_FIXTURES;
    for (const char* file : {"/decoders/gpt2/config.json", "/decoders/gpt2/model.safetensors",
                             "/bart/tokenizer.json", "/bart/tokenizer_config.json"})
      std::filesystem::copy(fixtures + file, folder.path());
    return folder.path().string();
  }();
  return path;
}

Words features(const std::string& coder, const Words& more) {
  Words words{"features", "--model", model(), "--sae", kCoders + coder};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(FeaturesCommand, ListsThoseOfEachToken) {
  const Result table = run(features("standard", {"One two.", "--top-k", "2"}));
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, testing::StartsWith("Features of each token at decoder.layers.1.in\n"));
  EXPECT_THAT(table.out, testing::ContainsRegex("features are active at a token; together they explain"));
  const Json value =
      json_lines(output_of(features("standard", {"One two.", "--top-k", "2", "--json"}))).front();
  EXPECT_EQ(value["reads"], "decoder.layers.1.in");
  EXPECT_EQ(value["tokens"].size() + 3, lines(table.out).size());
  for (const Json& token : value["tokens"]) {
    ASSERT_EQ(token["features"].size(), 2u);
    EXPECT_GE(token["features"][0]["activation"], token["features"][1]["activation"]);
  }
}

TEST(FeaturesCommand, FindsAFeatureInTexts) {
  const Folder folder;
  const Json all = json_lines(output_of(features("standard", {"One two.", "--json"}))).front();
  const std::int64_t feature = all["tokens"][1]["features"][0]["feature"];
  std::ofstream(folder / "texts.txt") << "Two.\nOne two.\n";
  const Json value =
      json_lines(output_of(features("standard", {"--texts", folder / "texts.txt", "--feature",
                                                 std::to_string(feature), "--top-k", "40", "--json"})))
          .front();
  EXPECT_EQ(value["feature"], feature);
  EXPECT_EQ(value["strongest"].size(), value["active_tokens"].get<std::size_t>());
  bool found = false;
  for (const Json& one : value["strongest"]) {
    if (one["text"] != 1 || one["position"] != 1) continue;
    found = true;
    EXPECT_EQ(one["activation"], all["tokens"][1]["features"][0]["activation"]);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(value["promoted"].size(), 40u);
  EXPECT_GE(value["promoted"][0]["logit"], value["promoted"][39]["logit"]);
  // The heads' values are no part of the stream from which logits are read.
  EXPECT_FALSE(json_lines(output_of(features("topk", {"One", "--feature", "0", "--json"})))
                   .front()
                   .contains("promoted"));
}

TEST(FeaturesCommand, ScalesFeatures) {
  const auto divergence = [](const Words& more) {
    Words words = features("jumprelu", {"One two.", "--json"});
    words.insert(words.end(), more.begin(), more.end());
    return json_lines(output_of(words)).front()["divergence"].get<double>();
  };
  const Json all = json_lines(output_of(features("jumprelu", {"One two.", "--json"}))).front();
  const std::string feature = std::to_string(all["tokens"][1]["features"][0]["feature"].get<std::int64_t>());
  EXPECT_NEAR(divergence({"--scale", feature + "=1"}), 0, 1e-9);
  EXPECT_GT(divergence({"--scale", feature + "=0"}), 0);
  EXPECT_NE(divergence({"--scale", feature + "=0"}), divergence({"--scale", feature + "=3"}));
  EXPECT_THAT(output_of(features("jumprelu", {"One two.", "--scale", feature + "=0"})),
              HasSubstr("KL divergence"));
}

TEST(FeaturesCommand, RefusesWhatDoesNotFit) {
  expect_error(2, features("standard", {"One", "--scale", "3"}),
               "--scale: expected FEATURE=FACTOR, as 17=0, got 3");
  expect_error(2, features("standard", {"One", "--scale", "3=0", "--feature", "3"}),
               "--feature: expected without --scale");
  expect_error(2, features("standard", {}), "expected a text, or --feature with --texts");
  expect_error(2, features("standard", {"One", "--feature", "40"}),
               "--feature: expected a feature below 40, got 40");
  expect_error(2, features("skip-transcoder", {"One", "--reads", "decoder.layers.0.in"}),
               "--writes: missing");
  expect_error(1, features("nothing", {"One"}), "cfg.json");
  expect_error(1, features("standard", {"One", "--reads", "decoder.layers.9.in"}), "decoder.layers.9.in");
  expect_error(1, features("standard", {"One", "--scale", "40=0"}), "feature: expected a position below 40");
}

}  // namespace
}  // namespace heed::cli_test
