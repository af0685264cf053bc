// heed attribute score: its tables, JSON and figure, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// Of the tiny encoder-decoder.
Words score(const Words& more) {
  Words words{"attribute", "score", "a b c", "--model", tiny_model(), "--target", "c b a"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(AttributeScore, TermsAddUpToTheScore) {
  for (const std::string kind : {"encoder", "decoder", "cross"}) {
    const Json value =
        json_lines(output_of(score({"--head", "1.1", "--query", "2", "--kind", kind, "--json"}))).front();
    EXPECT_EQ(value["kind"], kind);
    EXPECT_EQ(value["layer"], 1);
    EXPECT_EQ(value["head"], 1);
    EXPECT_EQ(value["query"]["position"], 2);
    const bool of_target = kind != "encoder";
    EXPECT_EQ(value["query"]["token"], of_target ? "▁b" : "▁c") << kind;
    double sum = value["position_bias"];
    std::size_t row = 0;
    for (const Json& part : value["query_parts"]) {
      double across = 0;
      ASSERT_EQ(value["pairs"][row].size(), value["key_parts"].size());
      for (const double pair : value["pairs"][row++]) across += pair;
      EXPECT_NEAR(across, part["sum"].get<double>(), 1e-9) << part;
      sum += across;
    }
    EXPECT_EQ(row, value["pairs"].size());
    EXPECT_NEAR(sum, value["score"].get<double>(), 1e-4) << kind;
    EXPECT_GT(value["weight"].get<double>(), 0);
  }
}

TEST(AttributeScore, IsAMeanOverPrompts) {
  const Folder folder;
  spill(folder / "prompts.tsv", "clean\ttarget\na b c\tc b a\nb c\tc b\n");
  const Words more{"--head", "1.1", "--kind", "decoder", "--json"};
  Words all{"attribute", "score", "--model", tiny_model(), "--prompts", folder / "prompts.tsv"};
  all.insert(all.end(), more.begin(), more.end());
  const Json mean = json_lines(output_of(all)).front(), first = json_lines(output_of(score(more))).front();
  Words other{"attribute", "score", "b c", "--model", tiny_model(), "--target", "c b"};
  other.insert(other.end(), more.begin(), more.end());
  const Json second = json_lines(output_of(other)).front();
  EXPECT_EQ(mean["prompts"], 2);
  const auto expect_mean = [](const Json& value, const Json& error, double a, double b) {
    EXPECT_NEAR(value.get<double>(), (a + b) / 2, 1e-9);
    EXPECT_NEAR(error.get<double>(), std::abs(a - b) / 2, 1e-9);  // s / sqrt(2)
  };
  expect_mean(mean["score"], mean["score_error"], first["score"], second["score"]);
  ASSERT_EQ(mean["query_parts"].size(), first["query_parts"].size());
  for (std::size_t i = 0; i < mean["query_parts"].size(); ++i)
    expect_mean(mean["query_parts"][i]["sum"], mean["query_parts"][i]["sum_error"],
                first["query_parts"][i]["sum"], second["query_parts"][i]["sum"]);
  expect_mean(mean["pairs"][1][2], mean["pair_errors"][1][2], first["pairs"][1][2], second["pairs"][1][2]);
  all.pop_back();
  const std::string table = output_of(all);
  EXPECT_THAT(table, HasSubstr("Why head 1.1 attends, mean of 2 prompts"));
  EXPECT_THAT(table, testing::ContainsRegex("[+-][0-9.]+ ± [0-9.]+"));
  spill(folder / "prompts.tsv", "clean\ttarget\na b c\tc b a\nb c\tc b\n");
  all.insert(all.end(), {"--query", "3"});
  EXPECT_THAT(run(all).err, HasSubstr("prompts.tsv:3: query: expected a position below 3, got 3"));
}

TEST(AttributeScore, TablesEndWithTheRest) {
  const Result table = run(score({"--head", "1.0", "--top-k", "3"}));
  ASSERT_EQ(table.status, 0) << table.err;
  const std::vector<std::string> all = lines(table.out);
  EXPECT_THAT(all[0], testing::StartsWith("Why head 1.0 attends from ·a (3) to "));
  EXPECT_THAT(all[1], HasSubstr("query part"));
  EXPECT_THAT(all[5], testing::ContainsRegex(" others +[0-9]+ pairs +"));
  EXPECT_THAT(table.out, HasSubstr("Summed over the other side\n"));
  EXPECT_THAT(table.out, testing::Not(HasSubstr("▁")));
  for (const std::string& line : all)
    EXPECT_LE(line.size(), 82u) << line;  // some have characters of two bytes
  EXPECT_THAT(run(score({"--head", "0.0", "--top-k", "1000"})).out, testing::Not(HasSubstr("others")));
  EXPECT_THAT(run(score({"--head", "0.0", "--kind", "cross"})).out,
              HasSubstr("Why cross-attention's head 0.0"));
}

TEST(AttributeScore, FigureHasTheSums) {
  const Folder folder;
  ASSERT_EQ(run(score({"--head", "1.0", "--key", "1", "--output", folder / "score.svg"})).status, 0);
  const std::string figure = slurp(folder / "score.svg");
  EXPECT_THAT(figure, testing::StartsWith("<svg"));
  EXPECT_THAT(figure, HasSubstr("Why head 1.0 attends from ·a (3) to ·c (1)"));
  EXPECT_THAT(figure, HasSubstr("<title>all × all: "));
  EXPECT_THAT(figure, HasSubstr(": a b c → c b a</text>"));
}

TEST(AttributeScore, ReadsImages) {
  const std::string fixtures = HEED_FIXTURES;
  const Result result = run({"attribute", "score", fixtures + "/image/pictures/photo.jpg", "--model",
                             fixtures + "/vit", "--head", "1.2", "--query", "0", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json value = Json::parse(result.out);
  EXPECT_EQ(value["kind"], "encoder");
  EXPECT_EQ(value["query_parts"][0]["name"], "embed");
}

TEST(AttributeScore, RefusesWhatDoesNotFit) {
  for (const char* head : {"1", "1.", ".1", "a.b", "1.2.3", "-1.0", ""})
    expect_error(2, score({"--head", head}), std::string("--head: expected LAYER.HEAD, as 5.1, got ") + head);
  expect_error(2, score({"--head", "1.0", "--query", "4"}), "--query: expected a position below 4, got 4");
  expect_error(2, score({"--head", "1.0", "--kind", "cross", "--key", "4"}),
               "--key: expected a position below 4, got 4");
  expect_error(2, score({"--head", "1.0", "--output", "x.gif"}), "ending in .svg");
  expect_error(2, score({"--head", "1.0", "--kind", "mine"}),
               "--kind: expected cross, encoder or decoder, got mine");
  expect_error(2, score({}), "--head");
  expect_error(1, score({"--head", "9.0"}), "attribute score: expected a layer below ");
  expect_error(1, score({"--head", "1.99"}), "attribute score: expected a head below ");
  expect_error(1, score({"--head", "1.0", "--query", "0", "--key", "2"}), "(masked)");
}

}  // namespace
}  // namespace heed::cli_test
