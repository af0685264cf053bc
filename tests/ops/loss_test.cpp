// Cross-entropy against its formula in plain loops, fused and chunked forms against the plain one.
#include "heed/ops/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;
using Ids = std::vector<std::int64_t>;

double by_loops(const Tensor& logits, const Ids& targets, const CrossEntropyOptions& o) {
  auto x = logits.to_vector<double>();
  for (double& l : x) l = o.logit_cap > 0 ? o.logit_cap * std::tanh(l / o.logit_cap) : l;
  const auto vocab = static_cast<std::size_t>(logits.size(-1));
  double total = 0;
  int count = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == o.ignore_index) continue;
    double z = 0, uniform = 0;
    for (std::size_t v = 0; v < vocab; ++v) z += std::exp(x[r * vocab + v]);
    const double logsumexp = std::log(z);
    for (std::size_t v = 0; v < vocab; ++v)
      uniform += (logsumexp - x[r * vocab + v]) / static_cast<double>(vocab);
    const double nll = logsumexp - x[r * vocab + static_cast<std::size_t>(targets[r])];
    total += (1 - o.label_smoothing) * nll + o.label_smoothing * uniform + o.z_loss * logsumexp * logsumexp;
    ++count;
  }
  return o.reduction == Reduction::sum ? total : count > 0 ? total / count : 0.0;
}

const CrossEntropyOptions kOptions[] = {
    {},
    {.label_smoothing = 0.1},
    {.logit_cap = 0.7},
    {.z_loss = 1e-2},
    {.label_smoothing = 0.1, .logit_cap = 2, .z_loss = 1e-3},
    {.label_smoothing = 0.2, .z_loss = 1e-3, .reduction = Reduction::sum}};

TEST(CrossEntropy, EqualsItsFormula) {
  const Ids targets{1, -100, 0, 6, 3, -100};
  const Tensor logits = random_tensor({2, 3, 7}, 91), ids = Tensor::from(targets, {2, 3});
  for (const CrossEntropyOptions& options : kOptions) {
    EXPECT_NEAR(cross_entropy(logits, ids, options).item(), by_loops(logits, targets, options), 1e-10);
    EXPECT_NEAR(cross_entropy(logits.to(DType::f32), ids, options).item(), by_loops(logits, targets, options),
                1e-5);
    check_gradients([&](const auto& in) { return cross_entropy(in[0], ids, options); }, {logits});
  }
}

TEST(CrossEntropy, WithoutReductionIsTheLossOfEveryRow) {
  const Ids targets{1, -100, 0, 6, 3, -100};
  const Tensor logits = random_tensor({2, 3, 7}, 95), ids = Tensor::from(targets, {2, 3});
  const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = Reduction::none};
  const Tensor losses = cross_entropy(logits, ids, options);
  ASSERT_EQ(losses.shape(), Shape({2, 3}));
  for (std::int64_t i = 0; i < 6; ++i) {
    Ids one(6, -100);
    one[static_cast<std::size_t>(i)] = targets[static_cast<std::size_t>(i)];
    EXPECT_NEAR(losses.data<double>()[i],
                by_loops(logits, one, {.label_smoothing = 0.1, .reduction = Reduction::sum}), 1e-10);
  }
  const Tensor weights = random_tensor({2, 3}, 96);
  check_gradients([&](const auto& in) { return sum(cross_entropy(in[0], ids, options) * weights); },
                  {logits});
}

TEST(CrossEntropy, FusedWithTheProjectionGivesTheLossOfEveryRow) {
  const Tensor x = random_tensor({2, 3, 4}, 92), w = random_tensor({7, 4}, 93), b = random_tensor({7}, 94),
               weights = random_tensor({2, 3}, 96);
  const Tensor ids = Tensor::from(Ids{1, -100, 0, 6, 3, -100}, {2, 3});
  for (CrossEntropyOptions options : kOptions) {
    options.reduction = Reduction::none;
    const auto expected = cross_entropy(linear(x, w, b), ids, options).to_vector<double>();
    Tensor with_gradient = x.clone();
    with_gradient.set_requires_grad();
    for (const Tensor& input : {x, with_gradient}) {
      const Tensor losses = linear_cross_entropy(input, w, b, ids, options);
      ASSERT_EQ(losses.shape(), Shape({2, 3}));
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(losses.data<double>()[i], expected[i], 1e-10);
    }
    check_gradients(
        [&](const auto& in) {
          return sum(linear_cross_entropy(in[0], in[1], in[2], ids, options) * weights);
        },
        {x, w, b});
    check_gradients(
        [&](const auto& in) { return sum(linear_cross_entropy(in[0], w, {}, ids, options) * weights); }, {x});
  }
}

TEST(CrossEntropy, FusedWithTheProjectionEqualsThePlainForm) {
  const Tensor x = random_tensor({5, 4}, 92), w = random_tensor({7, 4}, 93), b = random_tensor({7}, 94);
  const Tensor ids = Tensor::from(Ids{1, 0, -100, 6, 2}, {5});
  for (const CrossEntropyOptions& options : kOptions) {
    EXPECT_NEAR(linear_cross_entropy(x, w, b, ids, options).item(),
                cross_entropy(linear(x, w, b), ids, options).item(), 1e-10);
    check_gradients([&](const auto& in) { return linear_cross_entropy(in[0], in[1], in[2], ids, options); },
                    {x, w, b});
  }
  check_gradients([&](const auto& in) { return linear_cross_entropy(in[0], in[1], {}, ids); }, {x, w});
}

TEST(CrossEntropy, ChunksGiveWhatOnePieceGives) {
  // 200,000 classes make chunks of at most 167 rows.
  const std::int64_t rows = 170, vocab = 200000, d = 3;
  const Tensor x = random_tensor({rows, d}, 95).to(DType::f32),
               w = random_tensor({vocab, d}, 96).to(DType::f32);
  Ids targets;
  for (std::int64_t r = 0; r < rows; ++r) targets.push_back(r % 7 == 0 ? -100 : r * 2411 % vocab);
  const Tensor ids = Tensor::from(targets, {rows});
  Tensor xa = x.clone(), wa = w.clone(), xb = x.clone(), wb = w.clone();
  for (Tensor* t : {&xa, &wa, &xb, &wb}) t->set_requires_grad();
  const Tensor plain = cross_entropy(linear(xa, wa), ids), chunked = linear_cross_entropy(xb, wb, {}, ids);
  EXPECT_NEAR(plain.item(), chunked.item(), 1e-5 * plain.item());
  Tensor xc = x.clone(), wc = w.clone();
  for (Tensor* t : {&xc, &wc}) t->set_requires_grad();
  const Tensor each = sum(linear_cross_entropy(xc, wc, {}, ids, {.reduction = Reduction::none})) *
                      (1.0 / static_cast<double>(rows - std::count(targets.begin(), targets.end(), -100)));
  EXPECT_NEAR(plain.item(), each.item(), 1e-5 * plain.item());
  (each * 2.0).backward();
  (plain * 2.0).backward();
  (chunked * 2.0).backward();
  const auto ga = wa.grad().to_vector<float>(), gb = wb.grad().to_vector<float>();
  for (std::size_t i = 0; i < ga.size(); ++i) ASSERT_NEAR(ga[i], gb[i], 1e-6);
  const auto gxa = xa.grad().to_vector<float>(), gxb = xb.grad().to_vector<float>();
  for (std::size_t i = 0; i < gxa.size(); ++i) ASSERT_NEAR(gxa[i], gxb[i], 1e-6);
  const auto gc = wc.grad().to_vector<float>(), gxc = xc.grad().to_vector<float>();
  for (std::size_t i = 0; i < gc.size(); ++i) ASSERT_NEAR(ga[i], gc[i], 1e-6);
  for (std::size_t i = 0; i < gxc.size(); ++i) ASSERT_NEAR(gxa[i], gxc[i], 1e-6);
}

TEST(CrossEntropy, NeverHoldsAllLogits) {
  const std::int64_t rows = 4096, vocab = 30000, d = 8;  // all logits would be 491 MB
  Tensor x = random_tensor({rows, d}, 97).to(DType::f32), w = random_tensor({vocab, d}, 98).to(DType::f32);
  x.set_requires_grad();
  w.set_requires_grad();
  const Tensor ids = Tensor::zeros({rows}, DType::i64);
  reset_peak_memory();
  const std::size_t before = memory_statistics().bytes_in_use;
  for (const Reduction reduction : {Reduction::mean, Reduction::none})
    sum(linear_cross_entropy(x, w, {}, ids, {.reduction = reduction})).backward();
  EXPECT_LT(memory_statistics().peak_bytes - before, 136u << 20);  // a chunk is 128 MB at most
}

TEST(CrossEntropy, NothingToPredictIsZero) {
  EXPECT_EQ(cross_entropy(Tensor::zeros({2, 3}), Tensor::full({2}, -100, DType::i64)).item(), 0);
}

TEST(CrossEntropy, SaysWhatIsWrong) {
  const Tensor logits = Tensor::zeros({2, 3});
  EXPECT_ERROR(cross_entropy(logits, Tensor::full({2}, 3, DType::i64)),
               "expected targets in [0, 3) or -100 (ignored), got 3");
  EXPECT_ERROR(cross_entropy(logits, Tensor::full({2}, -1, DType::i64)),
               "expected targets in [0, 3) or -100 (ignored), got -1");
  EXPECT_ERROR(cross_entropy(logits, Tensor::zeros({3}, DType::i64)), "expected targets [2], got i64[3]");
  EXPECT_ERROR(cross_entropy(logits, Tensor::zeros({2}, DType::i64), {.label_smoothing = 1.0}),
               "expected label smoothing in [0, 1), got 1");
  EXPECT_ERROR(linear_cross_entropy(Tensor::zeros({2, 4}), logits, {}, Tensor::zeros({2}, DType::i64)),
               "of one type, got f32[2, 4], f32[2, 3] and an undefined tensor");
}

}  // namespace
}  // namespace heed
