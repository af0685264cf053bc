// Low-rank additions: values and gradients against the formula, dropout, and losses of adapted outputs.
#include "heed/nn/weight.h"

#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/nn/linear.h"
#include "heed/ops.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/tensors.h"

namespace heed {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t stream) {
  Tensor tensor = Tensor::empty(shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data<float>()[i] = RandomStream{9, stream}.normal(static_cast<std::uint64_t>(i));
  return tensor;
}

struct Adapted {
  Tensor x = numbers({2, 3, 6}, 1), w = numbers({5, 6}, 2), bias = numbers({5}, 3);
  LoraAdapter first{numbers({2, 6}, 4), numbers({5, 2}, 5), 0.5},
      second{numbers({3, 6}, 6), numbers({5, 3}, 7), 2.0};
  Tensor product(const LoraAdapter& a) const { return matmul(a.b, a.a) * a.scale; }
  Tensor sum() const { return w + product(first) + product(second); }
};

TEST(Lora, AddsToTheMapInEveryLayout) {
  const Adapted a;
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    const bool turned = layout == WeightLayout::in_out;
    Linear map{Weight(turned ? transpose(a.w, 0, 1).clone() : a.w.clone()), a.bias, layout};
    const Linear copy = map;
    map.weight.add_adapter(a.first);
    map.weight.add_adapter(a.second);
    const Tensor wanted = linear(a.x, a.sum(), a.bias, Activation::relu);
    EXPECT_LE(relative_error(copy(a.x, Activation::relu), wanted), 1e-6);
    map.weight.remove_adapters();
    EXPECT_EQ(copy(a.x).to_vector<float>(), linear(a.x, a.w, a.bias).to_vector<float>());
  }
}

TEST(Lora, GradientsOfBothHalvesAndOfTheInput) {
  Adapted a;
  const Weight weight(a.w);
  a.first.a.set_requires_grad();
  a.first.b.set_requires_grad();
  a.x.set_requires_grad();
  weight.add_adapter(a.first);
  const Tensor dy = numbers({2, 3, 5}, 8);
  sum(weight.linear(a.x, a.bias, Activation::none, WeightLayout::out_in) * dy).backward();
  const Tensor rows = reshape(a.x.detach(), {6, 6}), d = reshape(dy, {6, 5});
  const Tensor whole = matmul(transpose(d, 0, 1), rows) * a.first.scale;  // of B A
  EXPECT_LE(relative_error(a.first.b.grad(), matmul(whole, transpose(a.first.a.detach(), 0, 1))), 1e-5);
  EXPECT_LE(relative_error(a.first.a.grad(), matmul(transpose(a.first.b.detach(), 0, 1), whole)), 1e-5);
  const Tensor both = a.w + matmul(a.first.b.detach(), a.first.a.detach()) * a.first.scale;
  EXPECT_LE(relative_error(reshape(a.x.grad(), {6, 6}), matmul(d, both)), 1e-5);
  EXPECT_FALSE(a.w.grad().defined());
}

TEST(Lora, AddsToTheRowsOfATable) {
  const Tensor table = numbers({7, 5}, 2), dy = numbers({2, 3, 5}, 8);
  LoraAdapter adapter{numbers({2, 7}, 4), numbers({5, 2}, 5), 0.5, 0.9};
  const Weight weight(table);
  const Tensor ids = Tensor::from<std::int64_t>({6, 0, 3, 3, 1, 6}, {2, 3});
  const Tensor sum_of_all = table + transpose(matmul(adapter.b, adapter.a), 0, 1) * adapter.scale;
  const Tensor wanted = embedding(sum_of_all, ids, 3.0);
  adapter.a.set_requires_grad();
  adapter.b.set_requires_grad();
  weight.add_row_adapter(adapter);
  const Weight copy = weight;
  {
    const NoGradients guard;
    EXPECT_LE(relative_error(copy.embedding(ids, 3.0, {}), wanted), 1e-6);
    const Tensor x = numbers({2, 5}, 3);
    EXPECT_EQ(weight.linear(x, {}, Activation::none, WeightLayout::out_in).to_vector<float>(),
              linear(x, table).to_vector<float>());
  }
  const Tensor y = weight.embedding(ids, 3.0, 3);
  EXPECT_LE(relative_error(y.detach(), wanted), 1e-6);
  sum(y * dy).backward();
  // Of the whole table, and from it of both matrices; the padding, 3, gives none to A.
  Tensor whole = sum_of_all.clone();
  whole.set_requires_grad();
  sum(embedding(whole, ids, 3.0) * dy).backward();
  const Tensor d = transpose(whole.grad(), 0, 1) * adapter.scale;  // [D, V]
  EXPECT_LE(relative_error(adapter.b.grad(), matmul(d, transpose(adapter.a.detach(), 0, 1))), 1e-5);
  Tensor of_a = matmul(transpose(adapter.b.detach(), 0, 1), d);
  for (std::int64_t r = 0; r < 2; ++r) of_a.data<float>()[r * 7 + 3] = 0;
  EXPECT_LE(relative_error(adapter.a.grad(), of_a), 1e-5);
  EXPECT_ERROR(weight.embedding(Tensor::from<std::int64_t>({7}, {1}), 1.0, {}),
               "expected ids in [0, 7), got 7 at position 0");
  weight.remove_adapters();
  EXPECT_EQ(copy.embedding(ids, 1.0, {}).to_vector<float>(), embedding(table, ids).to_vector<float>());
}

TEST(Lora, DropsOutWithinAScopeOfTrainingOnly) {
  Adapted a;
  a.first.dropout = 0.5;
  const Tensor plain = a.first(a.x);
  Generator generator(4);
  {
    const AdapterDropout evaluation(Context{});
    EXPECT_EQ(a.first(a.x).to_vector<float>(), plain.to_vector<float>());
  }
  const AdapterDropout training(Context{.training = true, .generator = &generator});
  const Tensor dropped = a.first(a.x);
  EXPECT_EQ(generator.position(), 1u);
  const Tensor wanted = LoraAdapter{a.first.a, a.first.b, 0.5}(dropout(a.x, 0.5, RandomStream{4, 0}));
  EXPECT_EQ(dropped.to_vector<float>(), wanted.to_vector<float>());
  EXPECT_ERROR(AdapterDropout(Context{.training = true}), "dropout: no random generator");
}

TEST(Lora, LossesSeeTheAdapterOfTheOutput) {
  Adapted a;
  Linear map{Weight(a.w.clone()), a.bias};
  a.first.b.set_requires_grad();
  map.weight.add_adapter(a.first);
  map.weight.add_adapter(a.second);
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 4, 2, 1, 3, 0}, {2, 3});
  const double wanted = cross_entropy(linear(a.x, a.sum(), a.bias), targets).item();
  const Tensor loss = map.cross_entropy(a.x, targets);
  EXPECT_NEAR(loss.item(), wanted, 1e-5);
  loss.backward();
  EXPECT_TRUE(a.first.b.grad().defined());
  const CrossEntropyOptions each{.reduction = Reduction::none};
  EXPECT_NEAR(mean(map.cross_entropy(a.x, targets, each)).item(), wanted, 1e-5);
  const NoGradients inference;
  EXPECT_NEAR(map.cross_entropy(a.x, targets).item(), wanted, 1e-5);
  EXPECT_NEAR(mean(map.cross_entropy(a.x, targets, each)).item(), wanted, 1e-5);
}

}  // namespace
}  // namespace heed
