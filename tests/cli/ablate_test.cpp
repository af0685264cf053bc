// heed ablate: metrics with and without heads and feed-forward networks, over texts and prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// An encoder-decoder of two layers and two heads, whose words are letters.
Words ablate_tiny(const Words& more) {
  Words words{"ablate", "--model", tiny_model(), "--kind", "decoder"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json ablated(const Words& more) {
  Words words = ablate_tiny(more);
  words.emplace_back("--json");
  return Json::parse(output_of(words));
}

std::string two_prompts(const Folder& folder) {
  const std::string file = folder / "prompts.tsv";
  spill(file, "clean\ttarget\tA\tB\na b c\tc b a\ta\tb\nb c a\tc b d\tb\tc\n");
  return file;
}

double number(const Json& object, const std::string& name) { return object.at(name).get<double>(); }

TEST(Ablate, MeasuresAllThatTokensAllow) {
  const Folder folder;
  const std::string file = two_prompts(folder);
  for (const char* ablation : {"zero", "mean", "resample"}) {
    const Words options{"--prompts", file, "--ablation", ablation, "--seed", "3"};
    const Json shown = ablated(options);
    EXPECT_EQ(shown["prompts"], 2);
    Words names;
    for (const Json& metric : shown["metrics"]) {
      names.push_back(metric["metric"]);
      ASSERT_EQ(metric["heads"].size(), 4u);
      for (const Json& one : metric["heads"])
        EXPECT_NEAR(number(one, "value"), number(metric, "whole") + number(one, "change"), 1e-5);
      Words alone = options;
      alone.insert(alone.end(), {"--metric", names.back(), "--layers", "1", "--heads", "0"});
      EXPECT_EQ(ablated(alone)["metrics"][0]["heads"][0], metric["heads"][2]);
    }
    EXPECT_EQ(names, (Words{"logit-diff", "logit", "probability", "loss", "kl"}));
    Words together = options;
    together.insert(together.end(), {"--remove", "1.1", "--metric", "loss"});
    const Json removed = ablated(together)["metrics"][0], last = shown["metrics"][3]["heads"].back();
    EXPECT_TRUE(removed["heads"].empty());
    EXPECT_NEAR(number(removed, "removed"), number(last, "value"), 1e-6) << ablation;
    EXPECT_NEAR(number(removed, "removed_change"), number(last, "change"), 1e-6);
    EXPECT_NEAR(number(removed, "removed_change_error"), number(last, "change_error"), 1e-6);
    together.push_back("--each");  // each beside those: its change is from the run without them
    const Json beside = ablated(together)["metrics"][0];
    ASSERT_EQ(beside["heads"].size(), 3u);
    for (const Json& one : beside["heads"])
      EXPECT_NEAR(number(one, "value"), number(beside, "removed") + number(one, "change"), 1e-5);
    EXPECT_NEAR(number(beside, "removed"), number(beside, "whole") + number(beside, "removed_change"), 1e-5);
    Words pair = options;  // the first of them removed with 1.1
    pair.insert(pair.end(), {"--remove", "0.0,1.1", "--metric", "loss"});
    EXPECT_NEAR(number(beside["heads"][0], "value"), number(ablated(pair)["metrics"][0], "removed"), 1e-6);
  }
}

TEST(Ablate, MeasuresTheLossOfATextWithoutTokens) {
  const Json shown = ablated({"a b c d", "--feed-forward"});  // its target is the text itself
  ASSERT_EQ(shown["metrics"].size(), 1u);
  EXPECT_EQ(shown["metrics"][0]["metric"], "loss");
  ASSERT_EQ(shown["metrics"][0]["heads"].size(), 6u);
  EXPECT_EQ(shown["metrics"][0]["heads"][2]["part"], "feed_forward");
  expect_error(1, {"ablate", "the cat sat", "--model", HEED_FIXTURES "/encoders/roberta-mlm"},
               "--position: missing (the text has no mask token <mask>)");
}

TEST(Ablate, IsTheMeanOfTheTextsWithItsStandardError) {
  const Folder folder;
  const Words remove{"--remove", "0.1,1.ff", "--metric", "logit-diff"};
  const auto of = [&](const Words& more) {
    Words words = remove;
    words.insert(words.end(), more.begin(), more.end());
    return ablated(words);
  };
  const Json both = of({"--prompts", two_prompts(folder)}),
             first = of({"a b c", "--target", "c b a", "--token", "a", "--other", "b"}),
             second = of({"b c a", "--target", "c b d", "--token", "b", "--other", "c"});
  EXPECT_EQ(both["remove"], "0.1,1.ff");
  EXPECT_EQ(first["texts"], 1);
  EXPECT_FALSE(first["metrics"][0].contains("whole_error"));
  for (const char* name : {"whole", "removed", "removed_change"}) {
    const double x = number(first["metrics"][0], name), y = number(second["metrics"][0], name);
    EXPECT_NEAR(number(both["metrics"][0], name), (x + y) / 2, 1e-5) << name;
    EXPECT_NEAR(number(both["metrics"][0], name + std::string("_error")), std::abs(x - y) / 2, 1e-5) << name;
  }
}

TEST(Ablate, IsATableInTheTerminalAndInFiles) {
  const Folder folder;
  const std::string file = two_prompts(folder), csv = folder / "heads.csv", npz = folder / "heads.npz";
  const Words words = ablate_tiny(
      {"--prompts", file, "--layers", "1", "--heads", "0", "--remove", "0.1", "--metric", "loss", "--quiet"});
  const Result shown = run(words);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const Words table = lines(shown.out);
  ASSERT_EQ(table.size(), 6u) << shown.out;
  EXPECT_EQ(table[0], "Without attention heads, over 2 prompts");
  EXPECT_THAT(table[1], testing::ContainsRegex("^without +loss +Δ loss$"));
  EXPECT_THAT(table[2], testing::ContainsRegex("^nothing  [0-9.]+ ± [0-9.]+ *$"));
  EXPECT_THAT(table[3], HasSubstr("    0.1  "));
  EXPECT_THAT(table[4], HasSubstr("    1.0  "));
  EXPECT_EQ(table[5],
            "zeros in the place of the output; each beside 0.1; Δ: the change, of each from 0.1; means ± "
            "standard error");
  for (const std::string& output : {csv, npz}) {
    Words written = words;
    written.insert(written.end(), {"--output", output});
    EXPECT_EQ(output_of(written), "");
  }
  const Words numbers = lines(slurp(csv));
  ASSERT_EQ(numbers.size(), 6u);  // no line for a change of nothing
  EXPECT_EQ(numbers[0], "without,column,value,standard_error");
  EXPECT_THAT(numbers[1], testing::StartsWith("nothing,loss,"));
  EXPECT_THAT(numbers[4], testing::StartsWith("1.0,loss,"));
  EXPECT_THAT(slurp(npz), testing::StartsWith("PK"));
}

TEST(Ablate, RefusesWhatDoesNotFit) {
  const Folder folder;
  const std::string file = two_prompts(folder);
  const auto refused = [&](const Words& more, const std::string& message, int status = 2) {
    expect_error(status, ablate_tiny(more), message);
  };
  refused({"a", "--prompts", file}, "--prompts: expected texts or --prompts FILE, got both");
  refused({"--prompts", file, "-o", "x.html"},
          "--output: expected a file ending in .svg, .pdf, .png, .csv or .npz, got x.html");
  refused({"--prompts", file, "--heads", "mean"}, "--heads: expected whole numbers separated by commas");
  refused({"--prompts", file, "--layers", "7"}, "--layers: expected layers below 2, got 7");
  refused({"--prompts", file, "--heads", "2"}, "--heads: expected heads below 2, got 2");
  refused({"--prompts", file, "--width", "300"}, "--width: expected with --output FILE.svg");
  refused({"--prompts", file, "--remove", "0"},
          "--remove: expected heads LAYER.HEAD and feed-forward networks LAYER.ff");
  refused({"--prompts", file, "--remove", "0.99"}, "ablation: expected a head below 2, got 0.99", 1);
  refused({"a", "--reference", "x"}, "--reference: needs --ablation mean or resample");
  refused({"a", "--metric", "logit"}, "ablation: expected a token for this metric", 1);
  refused({"a", "--ablation", "resample"}, "expected another reference text", 1);
  spill(folder / "mixed.tsv", "clean\ttarget\tA\na\tb\tc\na\tb\t\n");
  refused({"--prompts", folder / "mixed.tsv", "--metric", "loss"},
          "mixed.tsv:3: expected A, and B, in every row or in none (or choose --metric)", 1);
  expect_error(1, {"ablate", HEED_FIXTURES "/sound/speech.wav", "--model", HEED_FIXTURES "/wav2vec2-ctc"},
               "ablate: expected a classifier");
}

}  // namespace
}  // namespace heed::cli_test
