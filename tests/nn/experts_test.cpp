// Mixtures of experts: against their formula, token by token; gradients; rows alone and in a batch; which
// weights are read; the load-balancing loss.
#include "heed/nn/feed_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "nn/random_parts.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_feed_forward;
using reference::random_tensor;

Experts random_experts(std::int64_t d, std::int64_t count, std::int64_t chosen, bool normalize) {
  Experts part{.router = {random_tensor({count, d}, 5), {}}, .chosen = chosen, .normalize = normalize};
  for (std::int64_t e = 0; e < count; ++e) {
    const auto seed = static_cast<std::uint64_t>(100 * e + 100);
    part.experts.push_back(random_feed_forward(d, 2 * d, Activation::silu, seed));
    part.experts.back().gate = reference::random_linear(2 * d, d, seed + 50);
  }
  return part;
}

Tensor run_experts(const Experts& part, const Tensor& x) {
  Context context;
  Pass pass(context);
  return part(x, pass);
}

// The formula for one token [1, D].
Tensor token_by_formula(const Experts& part, const Tensor& x) {
  const Tensor probabilities = softmax(part.router(x), -1);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t e = 0; e < part.experts.size(); ++e)
    order.emplace_back(-probabilities.to_vector<double>()[e], e);
  std::sort(order.begin(), order.end());
  double total = 0;
  for (std::int64_t j = 0; j < part.chosen; ++j) total -= order[static_cast<std::size_t>(j)].first;
  Tensor y = Tensor::zeros(x.shape(), DType::f64);
  Context context;
  Pass pass(context);
  for (std::int64_t j = 0; j < part.chosen; ++j) {
    const auto [negative, e] = order[static_cast<std::size_t>(j)];
    y = y + part.experts[e](x, pass) * (-negative / (part.normalize ? total : 1.0));
  }
  return y;
}

Experts in_f32(Experts part) {
  const auto narrow = [](Linear& linear) {
    linear.weight = linear.weight.tensor().to(DType::f32);
    if (linear.bias.defined()) linear.bias = linear.bias.to(DType::f32);
  };
  narrow(part.router);
  for (FeedForward& expert : part.experts) {
    narrow(expert.up);
    narrow(expert.down);
    narrow(*expert.gate);
  }
  return part;
}

TEST(Experts, AreTheirFormulaTokenByToken) {
  const Tensor x = random_tensor({2, 5, 6}, 1);
  for (const bool normalize : {true, false}) {
    for (const std::int64_t chosen : {1, 2, 4}) {
      const Experts part = random_experts(6, 4, chosen, normalize);
      const Tensor got = reshape(run_experts(part, x), {10, 6}), tokens = reshape(x, {10, 6});
      for (std::int64_t t = 0; t < 10; ++t)
        expect_near(slice(got, 0, t, t + 1), token_by_formula(part, slice(tokens, 0, t, t + 1)), 1e-12);
    }
  }
}

TEST(Experts, GradientsOfInputRouterAndExperts) {
  for (const bool normalize : {true, false}) {
    const Experts part = random_experts(4, 3, 2, normalize);
    check_gradients(
        [&](const auto& in) {
          Experts with = part;
          with.router.weight = in[1];
          with.experts[0].up.weight = in[2];
          with.experts[1].gate->weight = in[3];
          with.experts[2].down.weight = in[4];
          return run_experts(with, in[0]);
        },
        {random_tensor({2, 3, 4}, 2), part.router.weight.tensor(), part.experts[0].up.weight.tensor(),
         part.experts[1].gate->weight.tensor(), part.experts[2].down.weight.tensor()});
  }
}

TEST(Experts, ARowGivesTheSameBitsAloneAndInABatch) {
  const Experts part = in_f32(random_experts(24, 8, 3, true));
  const Tensor x = random_tensor({7, 9, 24}, 3).to(DType::f32);
  const NoGradients guard;
  const Tensor batch = run_experts(part, x);
  for (std::int64_t row = 0; row < 7; ++row) {
    const Tensor alone = run_experts(part, slice(x, 0, row, row + 1));
    EXPECT_EQ(slice(batch, 0, row, row + 1).to_vector<float>(), alone.to_vector<float>()) << row;
    const Tensor token = run_experts(part, slice(slice(x, 0, row, row + 1), 1, 4, 5));
    EXPECT_EQ(slice(alone, 1, 4, 5).to_vector<float>(), token.to_vector<float>()) << row;
  }
}

TEST(Experts, OnlyTheChosenAreRead) {
  Experts part = in_f32(random_experts(6, 8, 2, true));
  const Tensor x = random_tensor({1, 1, 6}, 4).to(DType::f32);
  const Tensor want = run_experts(part, x);
  Context context;
  Pass pass(context);
  part(x, pass);
  auto logits = pass.collected.at("router_logits").at(0).to_vector<float>();
  std::vector<float> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (std::size_t e = 0; e < 8; ++e) {
    if (logits[e] < sorted[1])
      part.experts[e].up.weight = Tensor::full({12, 6}, std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_EQ(run_experts(part, x).to_vector<float>(), want.to_vector<float>());
}

TEST(Experts, ATapReplacesTheRouterLogits) {
  const Experts part = random_experts(4, 3, 1, true);
  const Tensor x = random_tensor({1, 2, 4}, 6);
  Taps taps;
  taps.listen("layer.feed_forward.router_logits", [](const std::string&, Tensor& value) {
    EXPECT_EQ(value.shape(), (Shape{2, 3}));
    value = Tensor::from(std::vector<double>{0, 0, 9, 9, 0, 0}, {2, 3});
  });
  Context context{.taps = &taps};
  Pass pass(context);
  pass.name = "layer.feed_forward";
  const Tensor got = part(x, pass);
  expect_near(slice(got, 1, 0, 1), part.experts[2](slice(x, 1, 0, 1), pass), 1e-12);
  expect_near(slice(got, 1, 1, 2), part.experts[0](slice(x, 1, 1, 2), pass), 1e-12);
}

// Two layers of four tokens, the last of which is padding: counts and means by hand.
TEST(LoadBalancingLoss, CountsChoicesAndProbabilitiesWithoutPadding) {
  const Tensor mask = Tensor::from(std::vector<std::int64_t>{1, 1, 1, 0}, {2, 2});
  const std::vector<Tensor> logits = {random_tensor({4, 3}, 7), random_tensor({4, 3}, 8)};
  std::vector<double> choices(3, 0), means(3, 0);
  for (const Tensor& layer : logits) {
    const auto p = softmax(layer, -1).to_vector<double>();
    for (std::size_t t = 0; t < 3; ++t) {
      const std::size_t least =
          static_cast<std::size_t>(std::min_element(&p[3 * t], &p[3 * t] + 3) - &p[3 * t]);
      for (std::size_t e = 0; e < 3; ++e) {
        choices[e] += e == least ? 0 : 1.0 / 6;
        means[e] += p[3 * t + e] / 6;
      }
    }
  }
  double want = 0;
  for (std::size_t e = 0; e < 3; ++e) want += 3 * choices[e] * means[e];
  EXPECT_NEAR(load_balancing_loss(logits, 2, mask).item(), want, 1e-12);
  EXPECT_NE(load_balancing_loss(logits, 2, {}).item(), want);
  check_gradients([&](const auto& in) { return load_balancing_loss(in, 2, mask); }, logits);
}

TEST(FeedForward, AFusedGateIsTheTwoMatricesInOne) {
  FeedForward apart = random_feed_forward(6, 10, Activation::silu, 30);
  apart.gate = reference::random_linear(10, 6, 40);
  FeedForward fused = apart;
  fused.up = {concat({apart.gate->weight.tensor(), apart.up.weight.tensor()}, 0),
              concat({apart.gate->bias, apart.up.bias}, 0)};
  fused.gate.reset();
  fused.fused_gate = true;
  Context context;
  Pass pass(context);
  const Tensor x = random_tensor({2, 3, 6}, 9);
  expect_near(fused(x, pass), apart(x, pass), 1e-12);
}

}  // namespace
}  // namespace heed
