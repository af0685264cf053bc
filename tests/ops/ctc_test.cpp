// The CTC loss against PyTorch's numbers (torch 2.14.1, torch.nn.functional.ctc_loss of log_softmax, f64);
// its gradient against central differences. The formula: by_formula_test.cpp.
#include "heed/ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [3, 6, 4]
Tensor some_logits() {
  Tensor x = Tensor::empty({3, 6, 4}, DType::f64);
  for (int i = 0; i < 72; ++i) {
    const int b = i / 24, t = i / 4 % 6, v = i % 4;
    x.data<double>()[i] = (b * 7 + t * 5 + v * 3) % 11 / 5.0 - 1 + 0.1 * b;
  }
  return x;
}

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

// A repeated label, a hole, and a row without labels.
const Tensor kLabels = ids({1, 2, 2, -100, 3, -100, 1, -100, -100, -100, -100, -100}, {3, 4});
const Tensor kLengths = ids({6, 4, 5}, {3});

std::vector<double> losses(const Tensor& lengths, const CtcOptions& options) {
  return ctc_loss(some_logits(), kLabels, lengths, options).to_vector<double>();
}

TEST(Ctc, EqualsPyTorch) {
  const std::vector<double> rows = losses(kLengths, {.reduction = Reduction::none});
  const double want[] = {4.33060395845055446, 3.13757045242322796, 8.49557347275152708};
  for (std::size_t b = 0; b < 3; ++b) EXPECT_NEAR(rows[b], want[b], 1e-12);
  EXPECT_NEAR(losses(kLengths, {})[0], 3.83596445059333080, 1e-12);
  EXPECT_NEAR(losses(kLengths, {.reduction = Reduction::sum})[0], 15.96374788362530950, 1e-12);
  EXPECT_NEAR(ctc_loss(some_logits().to(DType::f32), kLabels, kLengths).item(), 3.83596445059333080, 1e-6);

  const Tensor x = some_logits().set_requires_grad();
  ctc_loss(x, kLabels, kLengths).backward();
  const Tensor second = Tensor::from(std::vector<double>{-0.044821282651491684,
                                                         0.07866876358548824,
                                                         0.015882949442854816,
                                                         -0.04973043037685137,
                                                         0.003456499043112138,
                                                         0.011898949021987558,
                                                         0.045386985090343786,
                                                         -0.06074243315544348,
                                                         0.007008251511305501,
                                                         -0.028310487035855324,
                                                         0.01588294944285481,
                                                         0.005419286081695014,
                                                         -0.026355239787361793,
                                                         -0.10173222412914118,
                                                         0.04538698509034381,
                                                         0.08270047882615918,
                                                         0,
                                                         0,
                                                         0,
                                                         0,
                                                         0,
                                                         0,
                                                         0,
                                                         0},
                                     {1, 6, 4});
  expect_near(slice(x.grad(), 0, 1, 2), second, 1e-15);
  double total = 0;
  for (const double g : x.grad().to_vector<double>()) total += std::abs(g);
  EXPECT_NEAR(total, 3.82371968445596622, 1e-12);
}

TEST(Ctc, RowsWithoutAnAlignmentAreInfiniteOrDoNotCount) {
  const Tensor lengths = ids({3, 4, 5}, {3});  // 1, 2, blank, 2 are four
  EXPECT_EQ(losses(lengths, {.reduction = Reduction::none})[0], kInfinity);
  EXPECT_EQ(losses(lengths, {})[0], kInfinity);
  const CtcOptions finite{.zero_infinity = true};
  EXPECT_NEAR(losses(lengths, finite)[0], 3.35478623298771339, 1e-12);
  const Tensor x = some_logits().set_requires_grad();
  ctc_loss(x, kLabels, lengths, finite).backward();
  const std::vector<double> gradient = x.grad().to_vector<double>();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(gradient[i], 0);
  EXPECT_NEAR(gradient[24], -0.044821282651491684, 1e-15);

  const Tensor y = some_logits().set_requires_grad();
  ctc_loss(y, kLabels, lengths).backward();
  EXPECT_TRUE(std::isnan(y.grad().to_vector<double>()[0]));
  // No frame is enough for no label.
  EXPECT_EQ(losses(ids({0, 4, 0}, {3}), {.reduction = Reduction::none})[2], 0);
  EXPECT_EQ(losses(ids({0, 4, 0}, {3}), {.reduction = Reduction::none})[0], kInfinity);
}

TEST(Ctc, GradientsAreThoseOfDifferences) {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    check_gradients(
        [&](const auto& in) {
          return ctc_loss(in[0], ids({2, 2, 0, 1, -1, -1}, {2, 3}), ids({6, 3}, {2}),
                          {.blank = 3, .reduction = reduction});
        },
        {random_tensor({2, 6, 4}, 71)});
  }
}

// As long as a recording of ten seconds: probabilities far below the smallest double.
TEST(Ctc, LongRowsStayFinite) {
  const Tensor x = random_tensor({1, 500, 32}, 72, -8, 8).set_requires_grad();
  Tensor labels = Tensor::empty({1, 120}, DType::i64);
  for (std::int64_t i = 0; i < 120; ++i) labels.data<std::int64_t>()[i] = 1 + i * 7 % 31;
  const Tensor loss = ctc_loss(x, labels);
  EXPECT_GT(loss.item(), 5.0);
  loss.backward();
  EXPECT_TRUE(all_finite(x.grad()));
}

TEST(Ctc, RefusesWhatDoesNotFit) {
  const Tensor x = some_logits();
  EXPECT_ERROR(ctc_loss(x, ids({1, 2}, {2, 1})), "expected logits [B, T, V], labels i64 [B, S]");
  EXPECT_ERROR(ctc_loss(x, Tensor::zeros({3, 1})), "labels i64 [B, S]");
  EXPECT_ERROR(ctc_loss(x, kLabels, ids({1, 2}, {2})), "lengths i64 [B]");
  EXPECT_ERROR(ctc_loss(x, ids({1, 4, 2}, {3, 1})), "labels below 4, got 4");
  EXPECT_ERROR(ctc_loss(x, kLabels, ids({1, 7, 2}, {3})), "lengths in [0, 6], got 7");
  EXPECT_ERROR(ctc_loss(x, kLabels, ids({1, -1, 2}, {3})), "lengths in [0, 6], got -1");
  EXPECT_ERROR(ctc_loss(x, kLabels, {}, {.blank = 4}), "a blank in [0, 4), got 4");
  EXPECT_ERROR(ctc_loss(x.to(DType::i64), kLabels), "i64");
}

}  // namespace
}  // namespace heed
