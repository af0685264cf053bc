#include "generate/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace heed::generate {
namespace {

using ::testing::ElementsAre;

// Text 0, 1; end 2; another special token 3; <|notimestamps|> 4; timestamps 5, ..., 9.
constexpr TimestampRules kRules{.end = 2, .no_timestamps = 4, .most_initial = 2};

// The tokens that remain, in a vocabulary of 10 whose scores are `scores`, or else all equal.
std::vector<std::int64_t> allowed(const std::vector<std::int64_t>& ids, std::vector<float> scores = {},
                                  const TimestampRules& rules = kRules) {
  if (scores.empty()) scores = {9, 8, 9, 0, 0, 0, 0, 0, 0, 0};  // text is likelier than all timestamps
  rules.apply(ids, scores);
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) tokens.push_back(static_cast<std::int64_t>(i));
  }
  return tokens;
}

TEST(TimestampRules, BeginWithATimestamp) {
  EXPECT_THAT(allowed({}), ElementsAre(5, 6, 7));
  EXPECT_THAT(allowed({}, {}, {.end = 2, .no_timestamps = 4}), ElementsAre(5, 6, 7, 8, 9));
}

TEST(TimestampRules, PairTimestamps) {
  EXPECT_THAT(allowed({5}), ElementsAre(0, 1, 2, 3));                 // text after the first
  EXPECT_THAT(allowed({5, 0}), ElementsAre(0, 1, 2, 3, 6, 7, 8, 9));  // no empty segment
  EXPECT_THAT(allowed({5, 0, 7}), ElementsAre(2, 3, 7, 8, 9));  // the same again, a later one, or the end
  EXPECT_THAT(allowed({5, 0, 7, 7}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(allowed({5, 0, 7, 7, 1}), ElementsAre(0, 1, 2, 3, 8, 9));
}

TEST(TimestampRules, PreferTimestampsThatAreLikelierTogether) {
  EXPECT_THAT(allowed({5, 0}, {1, 0, 0, 0, 9, 9, 0, 0, 0, 0}), ElementsAre(6, 7, 8, 9));  // log 4 > 1
  EXPECT_THAT(allowed({5, 0}, {1.5, 0, 0, 0, 9, 9, 0, 0, 0, 0}), ElementsAre(0, 1, 2, 3, 6, 7, 8, 9));
}

TEST(TimestampRules, DoNothingWithoutTimestampsInTheVocabulary) {
  EXPECT_EQ(allowed({}, std::vector<float>(5, 1.0f)).size(), 5u);
}

}  // namespace
}  // namespace heed::generate
