// heed attribute: its table and JSON, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

Words attribute(const Words& more) {
  Words words{"attribute", "One two.", "--model", std::string(HEED_FIXTURES) + "/encoders/bert-classify"};
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

}  // namespace
}  // namespace heed::cli_test
