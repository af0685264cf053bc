// Entities, answers and correlations, against values computed by hand.
#include "heed/score/labels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

using Tags = std::vector<std::vector<std::string>>;

TEST(EntityReport, ComparesTypeAndBothEnds) {
  const Tags gold{{"O", "B-PER", "I-PER", "O", "B-LOC"}, {"B-ORG", "B-ORG", "I-ORG"}};
  EXPECT_EQ(entity_report(gold, gold).f1, 1.0);
  EXPECT_EQ(entity_report(gold, gold).support, 4);
  // A shorter person, the same place, one organization instead of two.
  const Tags predicted{{"O", "B-PER", "O", "O", "B-LOC"}, {"B-ORG", "I-ORG", "I-ORG"}};
  const EntityReport report = entity_report(predicted, gold);
  EXPECT_EQ(report.correct, 1);
  EXPECT_EQ(report.predicted, 3);
  EXPECT_NEAR(report.precision, 1.0 / 3, 1e-12);
  EXPECT_NEAR(report.recall, 0.25, 1e-12);
  EXPECT_NEAR(report.f1, 2.0 / 7, 1e-12);
  EXPECT_EQ(entity_report(report.correct, report.predicted, report.support).f1, report.f1);
}

TEST(EntityReport, AnEntityMayBeginWithI) {
  const Tags gold{{"B-PER", "I-PER", "B-LOC"}}, predicted{{"I-PER", "I-PER", "I-LOC"}};
  EXPECT_EQ(entity_report(predicted, gold).correct, 2);
  EXPECT_EQ(entity_report(Tags{{"O"}}, Tags{{"O"}}).f1, 0.0);
  EXPECT_ERROR(entity_report(Tags{{"O"}}, Tags{}),
               "expected one predicted sequence per gold sequence, got 1 and 0");
  EXPECT_ERROR(entity_report(Tags{{"O"}}, Tags{{"O", "O"}}), "expected sequences of equal length");
}

TEST(AnswerScore, NormalizesAsSquadDoes) {
  const std::vector<std::string> gold{"The Eiffel Tower", "Eiffel Tower in Paris"};
  EXPECT_EQ(answer_score("eiffel  tower.", gold).exact, 1.0);
  EXPECT_EQ(answer_score("eiffel tower", gold).f1, 1.0);
  const AnswerScore part = answer_score("the old tower", gold);  // old, tower against eiffel, tower
  EXPECT_EQ(part.exact, 0.0);
  EXPECT_NEAR(part.f1, 0.5, 1e-12);
  EXPECT_EQ(answer_score("", gold).f1, 0.0);
  EXPECT_EQ(answer_score("a", std::vector<std::string>{"the"}).exact, 1.0);
}

TEST(Correlation, EqualsItsDefinition) {
  const std::vector<double> a{1, 2, 3, 4, 5}, b{2, 1, 4, 3, 7};
  EXPECT_NEAR(pearson(a, b), 12 / std::sqrt(212.0), 1e-12);
  EXPECT_NEAR(spearman(a, b), 0.8, 1e-12);
  EXPECT_NEAR(spearman(std::vector<double>{1, 2, 2, 3}, std::vector<double>{1, 2, 3, 4}), 0.9486832980505139,
              1e-12);
  EXPECT_EQ(pearson(std::vector<double>{1, 1}, std::vector<double>{1, 2}), 0.0);
  EXPECT_ERROR(pearson(a, std::vector<double>{1}), "expected two lists of equal length");
}

}  // namespace
}  // namespace heed
