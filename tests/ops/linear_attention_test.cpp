// Linear attention: the kernel against the plain formula (value, weights and gradients), against central
// differences and against numbers of PyTorch; long sums; states; and what must not change a bit.
#include "heed/ops/attention_variants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "heed/ops/shape.h"
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

Tensor lengths_of(std::vector<std::int64_t> lengths) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  return Tensor::from(lengths, {count});
}

// Keys of two rows: the first row misses some at both ends and in the middle.
Tensor holes(std::int64_t keys) {
  const Tensor mask = Tensor::full({2, keys}, 1, DType::boolean);
  for (std::int64_t s = 0; s < keys; ++s) mask.data<bool>()[s] = s > 0 && s != keys / 2 && s < keys - 2;
  return mask;
}

struct LinearCase {
  const char* name;
  std::int64_t heads, kv_heads, queries, keys, d, e;
  LinearAttentionOptions options;
};

// Sizes around the chunks of 64 tokens and the 16 rows that the kernel works on together.
std::vector<LinearCase> linear_cases() {
  return {
      {"bidirectional", 2, 2, 5, 5, 4, 4, {}},
      {"other keys than queries", 2, 2, 3, 70, 4, 6, {}},
      {"causal", 2, 2, 6, 6, 4, 4, {.causal = true}},
      {"causal, one token", 1, 1, 1, 1, 3, 2, {.causal = true}},
      {"causal, one chunk", 1, 1, 64, 64, 8, 8, {.causal = true}},
      {"causal, three chunks", 2, 1, 150, 150, 16, 17, {.causal = true}},
      {"grouped heads", 4, 2, 67, 67, 5, 3, {.causal = true}},
      {"grouped heads, bidirectional", 4, 2, 67, 80, 5, 3, {}},
      {"padding", 2, 2, 4, 70, 4, 4, {.key_mask = holes(70)}},
      {"padding, causal", 2, 2, 70, 70, 4, 4, {.causal = true, .key_mask = holes(70)}},
      {"lengths", 2, 2, 9, 9, 4, 4, {.causal = true, .key_lengths = lengths_of({9, 3})}},
      {"no key", 2, 2, 9, 9, 4, 4, {.key_mask = holes(9), .key_lengths = lengths_of({0, 5})}},
  };
}

TEST(LinearAttention, EqualsTheFormulaInValueWeightsAndGradient) {
  for (const LinearCase& c : linear_cases()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> fused, plain;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Shape shape =
          i == 0 ? Shape{2, c.heads, c.queries, c.d} : Shape{2, c.kv_heads, c.keys, i == 1 ? c.d : c.e};
      const Tensor x = random_tensor(shape, 100 + i);
      fused.push_back(x.clone().set_requires_grad());
      plain.push_back(x.clone().set_requires_grad());
    }
    AttentionWeights fused_weights, plain_weights;
    const Tensor y = linear_attention(fused[0], fused[1], fused[2], c.options, &fused_weights);
    const Tensor z = linear_attention_by_formula(plain[0], plain[1], plain[2], c.options, &plain_weights);
    expect_near(y, z, 1e-12);
    expect_near(fused_weights.values, plain_weights.values, 0);
    const Tensor gradient = random_tensor(y.shape(), 103);
    sum(y * gradient).backward();
    sum(z * gradient).backward();
    for (std::size_t i = 0; i < 3; ++i) expect_near(fused[i].grad(), plain[i].grad(), 1e-11);
    const DType f = DType::f32;
    std::vector<Tensor> narrow;
    for (const Tensor& x : plain) narrow.push_back(x.detach().to(f).set_requires_grad());
    on_every_target([&] {
      for (const Tensor& x : narrow) x.zero_grad();
      const Tensor x = linear_attention(narrow[0], narrow[1], narrow[2], c.options);
      expect_near(x, z, 1e-5);
      sum(x * gradient.to(f)).backward();
      for (std::size_t i = 0; i < 3; ++i) expect_near(narrow[i].grad(), plain[i].grad(), 1e-4);
    });
  }
}

TEST(LinearAttention, GradientsEqualCentralDifferences) {
  const Tensor q = random_tensor({1, 2, 5, 3}, 1), k = random_tensor({1, 1, 5, 3}, 2),
               v = random_tensor({1, 1, 5, 2}, 3);
  for (const bool causal : {false, true}) {
    const LinearAttentionOptions options{.causal = causal};
    check_gradients([&](const auto& in) { return linear_attention(in[0], in[1], in[2], options); },
                    {q, k, v});
  }
}

TEST(LinearAttention, WeightsOfChosenHeadsAndQueries) {
  const Tensor q = random_tensor({2, 4, 7, 3}, 1), k = random_tensor({2, 2, 7, 3}, 2),
               v = random_tensor({2, 2, 7, 2}, 3);
  const LinearAttentionOptions options{.causal = true};
  AttentionWeights all, some{{1, 2}, {6, 0}, {}};
  linear_attention(q, k, v, options, &all);
  linear_attention(q, k, v, options, &some);
  ASSERT_EQ(some.values.shape(), (Shape{2, 2, 2, 7}));
  expect_near(slice(slice(some.values, 1, 1, 2), 2, 0, 1), slice(slice(all.values, 1, 2, 3), 2, 6, 7), 1e-15);
  expect_near(slice(slice(some.values, 1, 0, 1), 2, 1, 2), slice(slice(all.values, 1, 1, 2), 2, 0, 1), 1e-15);
  expect_near(sum(all.values, -1), Tensor::full({2, 4, 7}, 1, DType::f64), 1e-12);
}

// Sums in float over 65,536 tokens would lose what a token adds.
TEST(LinearAttention, LongSumsKeepTheirDigits) {
  const std::int64_t time = 65536, d = 8;
  const Tensor q = random_tensor({1, 1, time, d}, 1), k = random_tensor({1, 1, time, d}, 2),
               v = random_tensor({1, 1, time, d}, 3), g = random_tensor({1, 1, time, d}, 4);
  const DType f = DType::f32;
  const auto run = [&](DType dtype) {
    std::vector<Tensor> in;
    for (const Tensor& x : {q, k, v}) in.push_back(x.to(f).to(dtype).set_requires_grad());
    const Tensor y = linear_attention(in[0], in[1], in[2], {.causal = true});
    sum(y * g.to(f).to(dtype)).backward();
    return std::vector<Tensor>{y, in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const std::vector<Tensor> narrow = run(f), wide = run(DType::f64);
  for (std::size_t i = 0; i < 4; ++i) expect_near(narrow[i], wide[i], 2e-5);
}

TEST(LinearAttention, AStateContinuesTheSums) {
  const std::int64_t time = 150;
  const Tensor q = random_tensor({2, 4, time, 5}, 1), k = random_tensor({2, 2, time, 5}, 2),
               v = random_tensor({2, 2, time, 3}, 3);
  const Tensor whole = linear_attention(q, k, v, {.causal = true});
  const Tensor state = Tensor::zeros({2, 2, 5, 4}, DType::f64);
  std::int64_t first = 0;
  for (const std::int64_t end : {1, 2, 70, 71, 150}) {
    const auto part = [&](const Tensor& x) { return slice(x, 2, first, end); };
    const Tensor y = linear_attention(part(q), part(k), part(v), {.causal = true, .state = state});
    expect_near(y, part(whole), 1e-12);
    first = end;
  }
  AttentionWeights weights;
  EXPECT_ERROR(linear_attention(q, k, v, {.causal = true, .state = state}, &weights),
               "expected no request for weights with a state");
  const Tensor trained = q.clone().set_requires_grad();
  EXPECT_ERROR(linear_attention(trained, k, v, {.causal = true, .state = state}),
               "the state of linear attention: expected inputs that need no gradient");
}

TEST(LinearAttention, ARowIsTheSameAloneInABatchAndWithAnyThreads) {
  const std::int64_t time = 130;
  const DType f = DType::f32;
  const Tensor q = random_tensor({3, 4, time, 17}, 1).to(f), k = random_tensor({3, 2, time, 17}, 2).to(f),
               v = random_tensor({3, 2, time, 9}, 3).to(f);
  expect_same_for_all_threads([&] {
    std::vector<Tensor> in;
    for (const Tensor& x : {q, k, v}) in.push_back(x.clone().set_requires_grad());
    const Tensor y = linear_attention(in[0], in[1], in[2], {.causal = true});
    sum(y * y).backward();
    std::vector<std::vector<float>> bits{y.to_vector<float>()};
    for (const Tensor& x : in) bits.push_back(x.grad().to_vector<float>());
    return bits;
  });
  const std::int64_t length = 77;
  for (const bool causal : {false, true}) {
    const Tensor together =
        linear_attention(q, k, v, {.causal = causal, .key_lengths = lengths_of({time, length, 3})});
    const auto row = [&](const Tensor& x) { return slice(slice(x, 0, 1, 2), 2, 0, length); };
    const Tensor alone = linear_attention(row(q), row(k), row(v), {.causal = causal});
    EXPECT_EQ(row(together).to_vector<float>(), alone.to_vector<float>());
  }
}

TEST(LinearAttention, ReadsViewsAsTheyLie) {
  const Tensor all = random_tensor({2, 70, 3, 2, 8}, 1);  // [B, T, 3, H, d]
  const auto view = [&](std::int64_t i) {
    return permute(reshape(slice(all, 2, i, i + 1), {2, 70, 2, 8}), {0, 2, 1, 3});
  };
  const Tensor q = view(0), k = view(1), v = view(2);
  expect_near(linear_attention(q, k, v, {.causal = true}),
              linear_attention(q.contiguous(), k.contiguous(), v.contiguous(), {.causal = true}), 0);
}

TEST(LinearAttention, SaysWhatIsWrong) {
  const Tensor x = random_tensor({1, 2, 4, 3}, 1);
  EXPECT_ERROR(linear_attention(x, x, random_tensor({1, 2, 5, 3}, 1)),
               "with K dividing H, got f64[1, 2, 4, 3], f64[1, 2, 4, 3] and f64[1, 2, 5, 3]");
  EXPECT_ERROR(linear_attention(slice(x, 2, 0, 2), x, x, {.causal = true}),
               "expected as many queries as keys for a causal attention");
  EXPECT_ERROR(linear_attention(x.to(DType::bf16), x.to(DType::bf16), x.to(DType::bf16)),
               "expected q, k and v all f32 or all f64, got bf16");
  EXPECT_ERROR(linear_attention(x, x, x, {.key_mask = Tensor::full({1, 5}, 1, DType::boolean)}),
               "expected a key mask bool[1, 4], got bool[1, 5]");
  EXPECT_ERROR(linear_attention(x, x, x, {.key_lengths = lengths_of({1, 2})}),
               "expected key lengths i64[1], got i64[2]");
  EXPECT_ERROR(linear_attention(x, x, x, {.state = Tensor::zeros({1, 2, 3, 3}, DType::f64)}),
               "expected a state f64[1, 2, 3, 4], got f64[1, 2, 3, 3]");
  EXPECT_ERROR(linear_attention_by_formula(x, x, x, {.state = Tensor::zeros({1, 2, 3, 4}, DType::f64)}),
               "linear attention by formula: expected no state");
}

}  // namespace
}  // namespace heed
