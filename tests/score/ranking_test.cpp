#include "heed/score/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace heed {
namespace {

TEST(Ranking, ScoresOfAListByHand) {
  const std::vector<double> gains{0, 1, 0, 3};
  EXPECT_EQ(recall(gains, 4, 2), 0.25);
  EXPECT_EQ(recall(gains, 2, 10), 1);
  EXPECT_EQ(recall(gains, 0, 10), 0);
  EXPECT_EQ(reciprocal_rank(gains, 10), 0.5);
  EXPECT_EQ(reciprocal_rank(gains, 1), 0);
  const std::vector<double> all{1, 0, 2, 0, 3};
  const double ideal = 3 + 2 / std::log2(3.0) + 0.5, found = 1 / std::log2(3.0) + 3 / std::log2(5.0);
  EXPECT_NEAR(ndcg(gains, all, 10), found / ideal, 1e-12);
  EXPECT_NEAR(ndcg(gains, all, 2), 1 / std::log2(3.0) / (3 + 2 / std::log2(3.0)), 1e-12);
  EXPECT_EQ(ndcg(std::vector<double>{0, 0}, std::vector<double>{0, 0}, 10), 0);
}

}  // namespace
}  // namespace heed
