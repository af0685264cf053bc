// BLEU by source length: each group has the score of its lines alone.
#include "heed/score/bleu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

const std::vector<std::string> kSources{"a b c", "a b c d e f", "", "a", "a b c d e f g h i j k"};
const std::vector<std::string> kHypotheses{"the cat sat on the mat .", "a dog runs over the hill today",
                                           "nothing at all", "the end of the day", "one two three four five"};
const std::vector<std::string> kReferences{"the cat sat on a mat .", "a dog runs over the big hill today",
                                           "nothing", "the end of the day", "six seven eight nine ten"};

TEST(BleuByLength, ScoresEachGroupLikeItsLinesAlone) {
  const auto groups = bleu_by_length(kSources, kHypotheses, {kReferences}, 5);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].from, 1);
  EXPECT_EQ(groups[0].to, 5);
  EXPECT_EQ(groups[0].lines, 2);
  EXPECT_EQ(groups[0].mean_words, 2);
  const BleuScore alone = corpus_bleu({kHypotheses[0], kHypotheses[3]}, {{kReferences[0], kReferences[3]}});
  EXPECT_EQ(groups[0].bleu.score, alone.score);
  EXPECT_GT(alone.score, 50);
  EXPECT_EQ(groups[1].from, 6);
  EXPECT_EQ(groups[1].bleu.score, corpus_bleu({kHypotheses[1]}, {{kReferences[1]}}).score);
  EXPECT_EQ(groups[2].to, 15);
  EXPECT_EQ(groups[2].bleu.matches[0], 0);
}

TEST(BleuByLength, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(bleu_by_length(kSources, kHypotheses, {kReferences}, 0),
               "expected a width of at least 1 word, got 0");
  EXPECT_ERROR(bleu_by_length({"a"}, kHypotheses, {kReferences}, 5),
               "expected 5 sources, one per hypothesis, got 1");
  EXPECT_ERROR(bleu_by_length(kSources, kHypotheses, {{"a"}}, 5),
               "expected 5 references, one per hypothesis, got 1");
}

}  // namespace
}  // namespace heed
