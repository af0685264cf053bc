// heed attend --metric and --prompts: numbers with and without heads, which are those of heed heads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// An encoder-decoder of two layers and two heads, whose words are letters.
Words attend_tiny(const Words& more) {
  Words words{"attend", "--model", tiny_model(), "--kind", "decoder"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json attended(const Words& more) {
  Words words = attend_tiny(more);
  words.emplace_back("--json");
  return Json::parse(output_of(words));
}

std::string two_prompts(const Folder& folder) {
  const std::string file = folder / "prompts.tsv";
  spill(file, "clean\ttarget\tA\tB\na b c\tc b a\ta\tb\nb c a\tc b d\tb\tc\n");
  return file;
}

double number(const Json& object, const std::string& name) { return object.at(name).get<double>(); }

TEST(AttendMetric, OverPromptsEqualsThatOfHeads) {
  const Folder folder;
  const std::string file = two_prompts(folder);
  for (const char* ablation : {"zero", "mean", "resample"}) {
    const Words options{"--prompts", file, "--ablation", ablation, "--seed", "3"};
    Words each = options;
    each.emplace_back("--ablate");
    const Json shown = attended(each);
    EXPECT_EQ(shown["prompts"], 2);
    Words names;
    for (const Json& metric : shown["metrics"]) {
      names.push_back(metric["metric"]);
      Words words{"heads", "--model", tiny_model(), "--kind", "decoder", "--metric", names.back(), "--json"};
      words.insert(words.end(), options.begin(), options.end());
      const Json heads = Json::parse(output_of(words));
      ASSERT_EQ(heads.size(), metric["heads"].size());
      const bool falls = names.back() != "loss" && names.back() != "kl";
      for (std::size_t i = 0; i < heads.size(); ++i) {
        const Json& one = metric["heads"][i];
        EXPECT_EQ(one["layer"], heads[i]["layer"]);
        EXPECT_EQ(one["head"], heads[i]["head"]);
        EXPECT_EQ(one["change"], (falls ? -1 : 1) * number(heads[i], "importance"));
        EXPECT_EQ(one["change_error"], heads[i]["importance_error"]);
        EXPECT_NEAR(number(one, "value"), number(metric, "whole") + number(one, "change"), 1e-5);
        EXPECT_EQ(metric["whole"], heads[i]["whole"]);
        EXPECT_EQ(metric["whole_error"], heads[i]["whole_error"]);
      }
    }
    EXPECT_EQ(names, (Words{"logit-diff", "logit", "probability", "loss", "kl"}));
    Words together = options;
    together.insert(together.end(), {"--remove", "1.1", "--metric", "loss"});
    const Json removed = attended(together)["metrics"][0], last = shown["metrics"][3]["heads"].back();
    EXPECT_NEAR(number(removed, "removed"), number(last, "value"), 1e-6) << ablation;
    EXPECT_NEAR(number(removed, "removed_change"), number(last, "change"), 1e-6);
    EXPECT_NEAR(number(removed, "removed_change_error"), number(last, "change_error"), 1e-6);
  }
}

TEST(AttendMetric, IsTheMeanOfTheTextsWithItsStandardError) {
  const Folder folder;
  const Words remove{"--remove", "0.1,1.ff", "--metric", "logit-diff"};
  const auto of = [&](const Words& more) {
    Words words = remove;
    words.insert(words.end(), more.begin(), more.end());
    return attended(words);
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

TEST(AttendMetric, IsATableInTheTerminalAndInFiles) {
  const Folder folder;
  const std::string file = two_prompts(folder), csv = folder / "heads.csv", npz = folder / "heads.npz";
  const Words words = attend_tiny({"--prompts", file, "--ablate", "--layers", "1", "--heads", "0", "--remove",
                                   "0.1", "--metric", "loss", "--quiet"});
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
            "zeros in the place of the output; each head beside 0.1; Δ: the change; means ± standard error");
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

TEST(AttendMetric, RefusesWhatMapsAloneHave) {
  const Folder folder;
  const std::string file = two_prompts(folder);
  const auto refused = [&](const Words& more, const std::string& message, int status = 2) {
    expect_error(status, attend_tiny(more), message);
  };
  refused({"--prompts", file}, "--prompts: needs --ablate or --remove");
  refused({"a", "--metric", "kl"}, "--metric: needs --ablate or --remove");
  refused({"a", "--ablate", "--prompts", file}, "--prompts: expected texts or --prompts FILE, got both");
  refused({"--prompts", file, "--ablate", "--show", "norms"},
          "expected one of --prompts and --show, got both");
  refused({"--prompts", file, "--ablate", "--queries", "1:"}, "expected one of --prompts and --queries");
  refused({"a", "--metric", "kl", "--ablate", "--pair", "b"},
          "expected one of --pair and --metric, got both");
  refused({"--prompts", file, "--ablate", "-o", "x.html"},
          "--output: expected a file ending in .svg, .pdf, .png, .csv or .npz, got x.html");
  refused({"--prompts", file, "--ablate", "--heads", "mean"},
          "--heads: expected heads or all with --prompts");
  refused({"--prompts", file, "--remove", "0.1", "--layers", "1"}, "--layers: needs --ablate");
  refused({"--prompts", file, "--ablate", "--layers", "7"}, "--layers: 7 not found");
  refused({"--prompts", file, "--ablate", "--heads", "2"}, "--heads: expected heads below 2, got 2");
  refused({"--prompts", file, "--ablate", "--width", "300"}, "--width: expected with --output FILE.svg");
  refused({"a", "--other", "b"}, "--other: needs --metric or --prompts");
  refused({"a", "--token", "b"}, "--token: needs --show gradient, --metric or --prompts");
  refused({"a", "--metric", "kl", "--ablate"}, "--target: missing (the decoder of");
  spill(folder / "mixed.tsv", "clean\ttarget\tA\na\tb\tc\na\tb\t\n");
  refused({"--prompts", folder / "mixed.tsv", "--ablate", "--metric", "loss"},
          "mixed.tsv: expected A, and B, in every row or in none (or choose --metric)", 1);
  spill(folder / "no-target.tsv", "clean\na\n");
  refused({"--prompts", folder / "no-target.tsv", "--ablate"}, "no-target.tsv:2: --target: missing", 1);
}

}  // namespace
}  // namespace heed::cli_test
