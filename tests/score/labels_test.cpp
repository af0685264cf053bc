// Accuracy and F1 against hand-computed numbers.
#include "heed/score/labels.h"

#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

using Labels = std::vector<std::size_t>;

// Label 0: 2 of 3 predictions correct, 2 of 2 found. Label 1: all. Label 2: never predicted, 1 to find.
TEST(LabelReport, CountsWhatAgrees) {
  const LabelReport report = label_report(Labels{0, 0, 0, 1, 1}, Labels{0, 0, 2, 1, 1}, 4);
  EXPECT_DOUBLE_EQ(report.accuracy, 4.0 / 5);
  EXPECT_DOUBLE_EQ(report.labels[0].precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(report.labels[0].recall, 1);
  EXPECT_DOUBLE_EQ(report.labels[0].f1, 0.8);
  EXPECT_DOUBLE_EQ(report.labels[1].f1, 1);
  EXPECT_DOUBLE_EQ(report.labels[2].f1, 0);
  EXPECT_DOUBLE_EQ(report.labels[2].precision, 0);
  EXPECT_EQ(report.labels[2].support, 1);
  EXPECT_DOUBLE_EQ(report.macro_f1, (0.8 + 1 + 0) / 3);  // the fourth label does not occur
  EXPECT_DOUBLE_EQ(report.weighted_f1, 0.8 * 2 / 5 + 1.0 * 2 / 5);
}

TEST(LabelReport, RefusesListsThatDoNotFit) {
  EXPECT_ERROR(label_report(Labels{0}, Labels{0, 1}, 2),
               "expected one predicted label per gold label, and at least one, got 1 and 2");
  EXPECT_ERROR(label_report(Labels{}, Labels{}, 2),
               "expected one predicted label per gold label, and at least one, got 0 and 0");
  EXPECT_ERROR(label_report(Labels{2}, Labels{0}, 2), "expected labels below 2");
}

}  // namespace
}  // namespace heed
