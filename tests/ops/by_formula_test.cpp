// Fused operations against their plain formulas: the values, and the gradients of every operand.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/norm.h"
#include "heed/ops/softmax.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::expect_near;
using reference::random_tensor;
using Operands = std::vector<Tensor>;
using Operation = std::function<Tensor(const Operands&)>;

void expect_equal(const Operation& fused, const Operation& plain, const Operands& operands) {
  Operands a, b;
  for (const Tensor& operand : operands) {
    a.push_back(operand.clone().set_requires_grad());
    b.push_back(operand.clone().set_requires_grad());
  }
  const Tensor y = fused(a), z = plain(b);
  expect_near(y, z, 1e-11);
  const Tensor weights = random_tensor(y.shape(), 7);
  sum(y * weights).backward();
  sum(z * weights).backward();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    SCOPED_TRACE("operand " + std::to_string(i));
    expect_near(a[i].grad(), b[i].grad(), 1e-11);
  }
}

TEST(ByFormula, Norms) {
  for (const std::int64_t d : {1, 3, 16, 67}) {
    const Tensor x = random_tensor({3, 2, d}, 1), r = random_tensor({3, 2, d}, 2), w = random_tensor({d}, 3),
                 b = random_tensor({d}, 4);
    // A row of one number is its own mean, and its gradient a difference of rounded numbers over sqrt(eps).
    const double eps = d == 1 ? 1 : 1e-5;
    expect_equal([=](const auto& in) { return layer_norm(in[0], in[1], in[2], eps); },
                 [=](const auto& in) { return layer_norm_by_formula(in[0], in[1], in[2], eps); }, {x, w, b});
    expect_equal([=](const auto& in) { return layer_norm(in[0], in[1], {}, eps); },
                 [=](const auto& in) { return layer_norm_by_formula(in[0], in[1], {}, eps); }, {x, w});
    expect_equal([=](const auto& in) { return add_layer_norm(in[0], in[1], in[2], in[3], eps); },
                 [=](const auto& in) { return layer_norm_by_formula(in[0] + in[1], in[2], in[3], eps); },
                 {x, r, w, b});
    for (const double offset : {0.0, 1.0}) {
      expect_equal([=](const auto& in) { return rms_norm(in[0], in[1], 1e-6, offset); },
                   [=](const auto& in) { return rms_norm_by_formula(in[0], in[1], 1e-6, offset); }, {x, w});
      expect_equal([=](const auto& in) { return add_rms_norm(in[0], in[1], in[2], 1e-6, offset); },
                   [=](const auto& in) { return rms_norm_by_formula(in[0] + in[1], in[2], 1e-6, offset); },
                   {x, r, w});
    }
  }
}

TEST(ByFormula, LinearMapsAndGates) {
  const Tensor x = random_tensor({2, 3, 4}, 11), w = random_tensor({5, 4}, 12), b = random_tensor({5}, 13);
  const Tensor turned = random_tensor({4, 5}, 14), gate = random_tensor({2, 3, 4}, 15);
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
        Activation::tanh, Activation::sigmoid, Activation::quick_gelu, Activation::mish}) {
    SCOPED_TRACE(static_cast<int>(activation));
    expect_equal([=](const auto& in) { return linear(in[0], in[1], in[2], activation); },
                 [=](const auto& in) { return linear_by_formula(in[0], in[1], in[2], activation); },
                 {x, w, b});
    expect_equal(
        [=](const auto& in) { return linear(in[0], in[1], {}, activation, WeightLayout::in_out); },
        [=](const auto& in) { return linear_by_formula(in[0], in[1], {}, activation, WeightLayout::in_out); },
        {x, turned});
    expect_equal([=](const auto& in) { return gated(in[0], in[1], activation); },
                 [=](const auto& in) { return gated_by_formula(in[0], in[1], activation); }, {gate, x});
  }
}

TEST(ByFormula, Softmaxes) {
  const Tensor x = random_tensor({3, 4, 5}, 21, -30, 30);
  for (const int axis : {0, 1, -1}) {
    expect_equal([=](const auto& in) { return softmax(in[0], axis); },
                 [=](const auto& in) { return softmax_by_formula(in[0], axis); }, {x});
    expect_equal([=](const auto& in) { return log_softmax(in[0], axis); },
                 [=](const auto& in) { return log_softmax_by_formula(in[0], axis); }, {x});
  }
}

TEST(ByFormula, CrossEntropies) {
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, -100, 0, 6, 3, -100}, {2, 3});
  const Tensor nothing = Tensor::full({2, 3}, -100, DType::i64);
  const Tensor logits = random_tensor({2, 3, 7}, 31), x = random_tensor({2, 3, 4}, 32);
  const Tensor w = random_tensor({7, 4}, 33), b = random_tensor({7}, 34);
  for (const Tensor& targets : {ids, nothing}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      for (CrossEntropyOptions options :
           {CrossEntropyOptions{}, CrossEntropyOptions{.label_smoothing = 0.1},
            CrossEntropyOptions{.label_smoothing = 0.2, .logit_cap = 0.7, .z_loss = 1e-2}}) {
        options.reduction = reduction;
        expect_equal([=](const auto& in) { return cross_entropy(in[0], targets, options); },
                     [=](const auto& in) { return cross_entropy_by_formula(in[0], targets, options); },
                     {logits});
        if (reduction == Reduction::none) continue;
        expect_equal(
            [=](const auto& in) { return linear_cross_entropy(in[0], in[1], in[2], targets, options); },
            [=](const auto& in) {
              return cross_entropy_by_formula(linear_by_formula(in[0], in[1], in[2]), targets, options);
            },
            {x, w, b});
      }
    }
  }
}

TEST(ByFormula, Ctc) {
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{2, 2, 4, -1, 0, -1, -1, -1, -1}, {3, 3});
  const Tensor lengths = Tensor::from(std::vector<std::int64_t>{7, 5, 6}, {3});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    for (const Tensor& each : {Tensor(), lengths}) {
      const CtcOptions options{.blank = 1, .reduction = reduction};
      expect_equal([=](const auto& in) { return ctc_loss(in[0], labels, each, options); },
                   [=](const auto& in) { return ctc_loss_by_formula(in[0], labels, each, options); },
                   {random_tensor({3, 7, 5}, 35)});
    }
  }
}

TEST(ByFormula, DisentangledBiases) {
  constexpr std::int64_t kTime = 5;
  const Tensor buckets = Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 3}, {2 * kTime - 1});
  const Tensor c2p = random_tensor({2, 2, kTime, 4}, 41), p2c = random_tensor({2, 2, kTime, 4}, 42);
  expect_equal([=](const auto& in) { return disentangled_bias(in[0], in[1], buckets); },
               [=](const auto& in) { return disentangled_bias_by_formula(in[0], in[1], buckets); },
               {c2p, p2c});
  expect_equal([=](const auto& in) { return disentangled_bias(in[0], {}, buckets); },
               [=](const auto& in) { return disentangled_bias_by_formula(in[0], {}, buckets); }, {c2p});
  expect_equal([=](const auto& in) { return disentangled_bias({}, in[0], buckets); },
               [=](const auto& in) { return disentangled_bias_by_formula({}, in[0], buckets); }, {p2c});
  // With padding, whose biases are -inf: compared after a softmax.
  const Tensor present = Tensor::full({2, kTime}, 1.0, DType::boolean);
  present.data<bool>()[kTime + 3] = present.data<bool>()[kTime + 4] = false;
  expect_equal([=](const auto& in) { return softmax(disentangled_bias(in[0], in[1], buckets, present), -1); },
               [=](const auto& in) {
                 return softmax(disentangled_bias_by_formula(in[0], in[1], buckets, present), -1);
               },
               {c2p, p2c});
}

}  // namespace
}  // namespace heed
