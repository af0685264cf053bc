// When gradients of leaves are reported as complete.
#include "tensor/impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/ops.h"

namespace heed {
namespace {

Tensor leaf_of(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n}).set_requires_grad();
}

// Collects the reports about some leaves, by their index.
struct Reports {
  std::vector<Tensor> leaves;
  std::vector<std::size_t> reached{}, rows_left{}, complete{};
  std::vector<std::vector<double>> gradients{};  // when they were reported

  std::size_t index_of(const Tensor& leaf) const {
    std::size_t i = 0;
    while (i < leaves.size() && !leaves[i].is_same(leaf)) ++i;
    return i;
  }
  void backward(const Tensor& loss) {
    const LeafGradientListener listener(
        [&](const std::vector<Tensor>& all) {
          for (const Tensor& leaf : all) reached.push_back(index_of(leaf));
        },
        [&](const Tensor& leaf) { rows_left.push_back(index_of(leaf)); },
        [&](const Tensor& leaf) {
          complete.push_back(index_of(leaf));
          gradients.push_back(leaf.grad().to_vector<double>());
        });
    loss.backward();
  }
};

TEST(GradientListener, ReportsALeafAfterItsLastUse) {
  const Tensor first = leaf_of({2}), shared = leaf_of({3}), unused = leaf_of({1});
  const Tensor last = leaf_of({5});
  Reports reports{{first, shared, last, unused}};
  reports.backward(sum((first * shared) * shared * last));
  EXPECT_THAT(reports.reached, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(reports.complete, testing::ElementsAre(2, 0, 1));
  EXPECT_EQ(reports.gradients, (std::vector<std::vector<double>>{{18}, {45}, {60}}));
}

TEST(GradientListener, ReportsALeafOfWhichOnlyRowsAreLeft) {
  const auto table = [] { return Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}).set_requires_grad(); };
  const Tensor tied = table(), looked_up = table();
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1}, {1});
  Reports reports{{tied, looked_up}};
  const LeafGradientListener listener(
      [](const std::vector<Tensor>&) {},
      [&](const Tensor& leaf) {
        reports.rows_left.push_back(reports.index_of(leaf));
        EXPECT_EQ(leaf.grad().to_vector<float>(), (std::vector<float>{8, 11, 8, 11}));
        EXPECT_TRUE(reports.complete.empty());
      },
      [&](const Tensor& leaf) { reports.complete.push_back(reports.index_of(leaf)); });
  const Tensor x = embedding(tied, ids) + embedding(looked_up, ids) + embedding(tied, ids);  // {9, 12}
  sum(matmul(x - 1.0, transpose(tied, 0, 1))).backward();
  EXPECT_THAT(reports.rows_left, testing::ElementsAre(0));
  EXPECT_THAT(reports.complete, testing::UnorderedElementsAre(0, 1));
}

TEST(GradientListener, IsSilentWhenItIsGoneAndAboutWalksInsideOfOthers) {
  const Tensor inner = leaf_of({2}), x = leaf_of({1});
  Tensor y = x.detach() * 2.0;
  record(y, "walks", {x, inner}, [inner](const Tensor& gradient) {
    const RecordGradients on;
    sum(inner * inner).backward();
    return std::vector<Tensor>{gradient * 2.0, Tensor()};
  });
  Reports reports{{x, inner}};
  reports.backward(sum(y));
  EXPECT_THAT(reports.complete, testing::ElementsAre(0, 1));
  EXPECT_EQ(reports.gradients, (std::vector<std::vector<double>>{{2}, {4}}));
  sum(x * 1.0).backward();
  EXPECT_EQ(reports.complete.size(), 2u);
}

TEST(GradientListener, LeavesBetweenDoNotGoPastTheInputs) {
  const Tensor below = leaf_of({2}), weight = leaf_of({3});
  const Tensor x = below * 2.0;
  const Tensor y = x * weight + weight;
  const std::vector<Tensor> found = leaves_between({x}, {y, Tensor(), x});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_same(weight));
  EXPECT_EQ(leaves_between({}, {y}).size(), 2u);
  EXPECT_TRUE(leaves_between({x}, {x}).empty());
}

}  // namespace
}  // namespace heed
