// heed attribute logit and input: tables and JSON, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

Words attribute(const Words& more) {
  Words words{"attribute", "input", "One two.", "--model",
              std::string(HEED_FIXTURES) + "/encoders/bert-classify"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(AttributeCommand, ListsWhatTokensAddToLabels) {
  const Result table = run(attribute({"--all-labels", "--method", "integrated", "--baseline", "mask"}));
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, testing::StartsWith("What each token adds to the logit of each label"));
  EXPECT_THAT(table.out, HasSubstr("completeness error"));
  const Json value = json_lines(output_of(attribute({"--all-labels", "--method", "integrated", "--baseline",
                                                     "mask", "--steps", "200", "--json"})))
                         .front();
  EXPECT_EQ(value["method"], "integrated");
  ASSERT_GE(value["outputs"].size(), 2u);
  for (const Json& output : value["outputs"]) {
    EXPECT_EQ(output["stacks"][0]["tokens"].size(), output["stacks"][0]["adds"].size());
    EXPECT_LT(std::abs(output["completeness_error"].get<double>()), 1e-2);
  }
}

// More steps are taken by themselves; those that were asked for, and do not suffice, are a warning.
TEST(AttributeCommand, WarnsOfASumThatIsNotComplete) {
  const Result few = run(attribute({"--method", "integrated", "--steps", "1", "--json"}));
  ASSERT_EQ(few.status, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("expected integrated gradients that add up to"));
  EXPECT_FALSE(Json::parse(few.out)["outputs"][0]["complete"].get<bool>());
  const Result more = run(attribute({"--method", "integrated", "--json"}));
  EXPECT_THAT(more.err, testing::Not(HasSubstr("expected integrated gradients")));
  EXPECT_TRUE(Json::parse(more.out)["outputs"][0]["complete"].get<bool>());
}

TEST(AttributeCommand, RefusesWhatDoesNotFit) {
  const auto refused = [](const Words& more, const std::string& expected) {
    const Result result = run(attribute(more));
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  };
  refused({"--steps", "4"}, "--steps: expected with --method integrated");
  refused({"--metric", "kl"}, "--metric: expected loss, logit, logit-diff or probability, got kl");
  refused({"--all-labels", "--id", "0"}, "--all-labels: expected without --token");
  refused({"--position", "1"}, "--position: expected a model of tokens");
}

TEST(AttributeCommand, SplitsALogit) {
  Words words{"attribute", "logit", "a b c", "--target", "c b a", "--model", tiny_model(), "--token", "a"};
  const auto json = [](Words of) {
    of.emplace_back("--json");
    return Json::parse(output_of(of));
  };
  const Json whole = json(words);
  double sum = 0;
  for (const Json& part : whole["parts"]) sum += part["logit"].get<double>();
  EXPECT_NEAR(sum, whole["logit"].get<double>(), 1e-4);
  words.insert(words.end(), {"--other", "b"});
  const Json difference = json(words);
  words[words.size() - 3] = "b";
  words.resize(words.size() - 2);
  EXPECT_NEAR(difference["logit"].get<double>(),
              whole["logit"].get<double>() - json(words)["logit"].get<double>(), 1e-6);
  words.resize(words.size() - 2);
  expect_error(2, words, "--token: missing");
}

TEST(AttributeCommand, AnswersFormerNames) {
  const auto answered = [](const Words& words, const std::string& present) {
    expect_error(2, words, present);
  };
  answered({"why", "a", "--model", "m"}, "heed why is now heed attribute score");
  answered({"lens", "a", "--model", "m", "--token", "b"}, "--token of heed lens is now heed attribute logit");
  answered({"heads", "a", "--model", "m", "--ablate"}, "--ablate of heed heads is now heed ablate");
  answered({"attend", "a", "--model", "m", "--metric", "kl"}, "--metric of heed attend is now heed ablate");
}

}  // namespace
}  // namespace heed::cli_test
