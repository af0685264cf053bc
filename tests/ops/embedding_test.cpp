#include "heed/ops/embedding.h"

#include <gtest/gtest.h>

#include "reference/gradient_check.h"

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

TEST(Embedding, RefusesIdsOutsideTheTable) {
  const Tensor table = Tensor::zeros({3, 2});
  EXPECT_THROW(embedding(table, Tensor::from(Ids{3}, {1})), Error);
  EXPECT_THROW(embedding(table, Tensor::from(Ids{-1}, {1})), Error);
  EXPECT_THROW(embedding(table, Tensor::zeros({1})), Error);
  EXPECT_EQ(embedding(table, Tensor::zeros({0}, DType::i64)).shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace heed
