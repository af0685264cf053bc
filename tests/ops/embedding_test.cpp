#include "heed/ops/embedding.h"

#include <gtest/gtest.h>

#include "heed/ops/loss.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;
using Ids = std::vector<std::int64_t>;

TEST(Embedding, LooksUpScalesAndWidens) {
  const Tensor table = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor ids = Tensor::from(Ids{2, 0, 2, 1}, {2, 2});
  const Tensor y = embedding(table, ids, 2.0);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{10, 12, 2, 4, 10, 12, 6, 8}));
  EXPECT_EQ(embedding(table.to(DType::bf16), ids, 2.0).to_vector<float>(), y.to_vector<float>());
}

TEST(Embedding, GradientAddsUpAndSkipsPadding) {
  const Tensor ids = Tensor::from(Ids{2, 0, 2, 1}, {2, 2});
  check_gradients([&](const auto& in) { return embedding(in[0], ids, 1.5); }, {random_tensor({4, 3}, 71)});
  const Tensor table = Tensor::zeros({3, 1}, DType::f64).set_requires_grad();
  sum(embedding(table, ids, 1.0, 2)).backward();
  EXPECT_EQ(table.grad().to_vector<double>(), (std::vector<double>{1, 1, 0}));
}

// The table is the output projection as well: its gradient is there when that of the lookups comes.
TEST(Embedding, GradientOfATiedTable) {
  const Tensor ids = Tensor::from(Ids{2, 0, 2, 1}, {4}), targets = Tensor::from(Ids{0, 2, 3, 1}, {4});
  const auto loss = [&](const auto& in) {
    return linear_cross_entropy(embedding(in[0], ids, 1.5, 1) * 0.5, in[0], {}, targets);
  };
  Tensor table = random_tensor({4, 3}, 72);
  table.set_requires_grad();
  loss(std::vector<Tensor>{table}).backward();
  // Untied, the two parts apart.
  Tensor looked_up = table.clone().set_requires_grad(), projected = table.clone().set_requires_grad();
  linear_cross_entropy(embedding(looked_up, ids, 1.5, 1) * 0.5, projected, {}, targets).backward();
  reference::expect_near(table.grad(), looked_up.grad() + projected.grad(), 1e-14);
}

// That of a table in bf16 is f32.
TEST(Embedding, GradientOfAStoredTable) {
  const Tensor ids = Tensor::from(Ids{2, 0, 2, 1}, {4}), targets = Tensor::from(Ids{0, 2, 3, 1}, {4});
  const auto gradient = [&](const Tensor& numbers) {
    Tensor table = numbers.clone();
    table.set_requires_grad();
    linear_cross_entropy(embedding(table, ids, 1.5, 1) * 0.5, table, {}, targets).backward();
    return table.grad().to_vector<float>();
  };
  const Tensor table = random_tensor({4, 3}, 73).to(DType::bf16);
  EXPECT_EQ(gradient(table), gradient(table.to(DType::f32)));
}

TEST(Embedding, RefusesIdsOutsideTheTable) {
  const Tensor table = Tensor::zeros({3, 2});
  EXPECT_ERROR(embedding(table, Tensor::from(Ids{3}, {1})), "expected ids in [0, 3), got 3 at position 0");
  EXPECT_ERROR(embedding(table, Tensor::from(Ids{-1}, {1})), "expected ids in [0, 3), got -1 at position 0");
  EXPECT_ERROR(embedding(table, Tensor::zeros({1})), "expected i64, got f32[1]");
  EXPECT_EQ(embedding(table, Tensor::zeros({0}, DType::i64)).shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace heed
