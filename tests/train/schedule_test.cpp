// Compares schedules with their closed formulas.
#include "heed/train/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

TEST(Schedule, WarmUpIsANumberOfStepsOrAShare) {
  EXPECT_EQ(warmup_steps(1000, 100), 1000);
  EXPECT_EQ(warmup_steps(1, 100), 1);
  EXPECT_EQ(warmup_steps(0.1, 12345), 1235);
  EXPECT_EQ(warmup_steps(0.1, 3), 0);
  EXPECT_EQ(warmup_steps(0, 100), 0);
}

TEST(Schedule, EveryKindWarmsUpLinearly) {
  for (const auto kind :
       {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::inverse_sqrt}) {
    const Schedule s{.kind = kind, .lr = 0.4, .min_lr = 0.1, .warmup = 8, .steps = 108};
    EXPECT_DOUBLE_EQ(s.at(1), 0.05);
    EXPECT_DOUBLE_EQ(s.at(4), 0.2);
    EXPECT_DOUBLE_EQ(s.at(8), 0.4);
  }
}

TEST(Schedule, EndsWhereTheFormulaSays) {
  Schedule s{.kind = ScheduleKind::linear, .lr = 0.4, .min_lr = 0.1, .warmup = 8, .steps = 108};
  EXPECT_DOUBLE_EQ(s.at(58), 0.25);
  EXPECT_DOUBLE_EQ(s.at(108), 0.1);
  EXPECT_DOUBLE_EQ(s.at(500), 0.1);
  s.kind = ScheduleKind::cosine;
  EXPECT_DOUBLE_EQ(s.at(33), 0.1 + 0.3 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(s.at(58), 0.25);
  EXPECT_DOUBLE_EQ(s.at(108), 0.1);
  s.kind = ScheduleKind::constant;
  EXPECT_DOUBLE_EQ(s.at(108), 0.4);
}

TEST(Schedule, InverseSquareRootIsVaswanisFormula) {
  const double d = 512;
  const double warmup = 4000;
  const Schedule s{.kind = ScheduleKind::inverse_sqrt, .lr = vaswani_lr(512, 4000, 2), .warmup = 4000};
  for (const std::int64_t step : {1, 100, 3999, 4000, 4001, 16000, 100000}) {
    const auto n = static_cast<double>(step);
    const double expected = 2 / std::sqrt(d) * std::min(1 / std::sqrt(n), n / (warmup * std::sqrt(warmup)));
    EXPECT_NEAR(s.at(step), expected, 1e-15);
  }
  EXPECT_DOUBLE_EQ(s.at(16000), s.lr / 2);
}

TEST(Schedule, NeedsNoWarmUp) {
  EXPECT_DOUBLE_EQ((Schedule{.kind = ScheduleKind::inverse_sqrt, .lr = 1}).at(4), 0.5);
  EXPECT_DOUBLE_EQ((Schedule{.kind = ScheduleKind::linear, .lr = 1, .steps = 4}).at(1), 0.75);
}

TEST(Schedule, KnowsItsNames) {
  EXPECT_EQ(schedule_from_name("cosine"), ScheduleKind::cosine);
  EXPECT_ERROR(schedule_from_name("cosin"),
               "schedule: expected constant, linear, cosine or inverse_sqrt, got cosin");
}

}  // namespace
}  // namespace heed
