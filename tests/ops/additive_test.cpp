// Additive attention scores against their formula and central differences.
#include "heed/ops/attention_variants.h"

#include <gtest/gtest.h>

#include "heed/threads.h"
#include "kernels/kernel_case.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

std::vector<Tensor> operands(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t dim,
                             DType dtype = DType::f64) {
  return {random_tensor({batch, queries, dim}, 1).to(dtype), random_tensor({batch, keys, dim}, 2).to(dtype),
          random_tensor({dim}, 3).to(dtype)};
}

void check_against_the_formula() {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
    for (const std::int64_t dim : {1, 7, 8, 16, 33, 70}) {
      std::vector<std::vector<Tensor>> inputs;
      for (const auto function : {&additive_scores, &additive_scores_by_formula}) {
        inputs.push_back(operands(3, 4, 5, dim, dtype));
        for (Tensor& each : inputs.back()) each.set_requires_grad();
        const auto& in = inputs.back();
        const Tensor scores = function(in[0], in[1], in[2]);
        expect_near(scores, additive_scores_by_formula(in[0], in[1], in[2]), tolerance);
        scores.backward(random_tensor(scores.shape(), 4).to(dtype));
      }
      for (std::size_t i = 0; i < 3; ++i) expect_near(inputs[0][i].grad(), inputs[1][i].grad(), tolerance);
    }
  }
}

TEST(AdditiveScores, EqualTheirFormulaInValueAndGradient) { on_every_target(check_against_the_formula); }

TEST(AdditiveScores, GradientsEqualCentralDifferences) {
  check_gradients([](const auto& in) { return additive_scores(in[0], in[1], in[2]); }, operands(2, 3, 2, 5));
}

TEST(AdditiveScores, DoNotDependOnBatchPaddingOrThreads) {
  const std::vector<Tensor> all = operands(9, 6, 31, 70, DType::f32),
                            one = operands(1, 6, 31, 70, DType::f32);
  const int before = threads();
  set_threads(1);
  const std::vector<float> alone = additive_scores(one[0], one[1], one[2]).to_vector<float>();
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    std::vector<float> first = additive_scores(all[0], all[1], all[2]).to_vector<float>();
    first.resize(alone.size());
    EXPECT_EQ(first, alone);
  }
  set_threads(before);
}

TEST(AdditiveScores, NothingIsFine) {
  EXPECT_EQ(additive_scores(random_tensor({0, 2, 3}, 1), random_tensor({0, 4, 3}, 1), random_tensor({3}, 1))
                .shape(),
            (Shape{0, 2, 4}));
}

TEST(AdditiveScores, RefuseWhatDoesNotFit) {
  const std::vector<Tensor> in = operands(2, 3, 4, 5);
  EXPECT_ERROR(additive_scores(in[0], in[0], random_tensor({4}, 1)),
               "and v [A] of one type, got f64[2, 3, 5], f64[2, 3, 5] and f64[4]");
  EXPECT_ERROR(additive_scores(in[0], random_tensor({3, 4, 5}, 1), in[2]),
               "got f64[2, 3, 5], f64[3, 4, 5] and f64[5]");
  EXPECT_ERROR(additive_scores(in[0], in[1].to(DType::f32), in[2]),
               "got f64[2, 3, 5], f32[2, 4, 5] and f64[5]");
  EXPECT_ERROR(additive_scores(in[2], in[1], in[2]), "got f64[5], f64[2, 4, 5] and f64[5]");
}

}  // namespace
}  // namespace heed
