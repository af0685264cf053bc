// Scaled dot-product attention: the literature's worked example, the fused operation against the plain
// formula (value, weights and gradients) under every option, and its traps.
#include "heed/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "ops/attention.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

Tensor boolean(const Shape& shape, std::uint64_t seed, double keep) {
  const auto values = random_tensor(shape, seed, 0, 1).to_vector<double>();
  Tensor mask = Tensor::empty(shape, DType::boolean);
  for (std::size_t i = 0; i < values.size(); ++i) mask.data<bool>()[i] = values[i] < keep;
  return mask;
}

TEST(Attention, WorkedExample) {
  const Tensor q = Tensor::from(std::vector<float>{1, 0, 0, 1, 1, 1}, {1, 1, 3, 2});
  const Tensor k = Tensor::from(std::vector<float>{1, 1, 0, 1, 1, 0}, {1, 1, 3, 2});
  const Tensor v = Tensor::from(std::vector<float>{1, 0, 0, 1, 0, 0}, {1, 1, 3, 2});
  AttentionWeights weights;
  const Tensor out = scaled_dot_product_attention(q, k, v, {}, &weights);
  expect_near(weights.values,
              Tensor::from(std::vector<float>{.401f, .198f, .401f, .401f, .401f, .198f, .503f, .248f, .248f},
                           {1, 1, 3, 3}),
              6e-4);
  expect_near(out, Tensor::from(std::vector<float>{.401f, .198f, .401f, .401f, .503f, .248f}, {1, 1, 3, 2}),
              6e-4);
}

struct Case {
  const char* name;
  std::int64_t heads, kv_heads, queries, keys, d, e;
  AttentionOptions options;
};

std::vector<Case> cases() {
  auto with = [](auto change) {
    AttentionOptions o;
    change(o);
    return o;
  };
  return {
      {"plain", 2, 2, 5, 5, 4, 4, {}},
      {"cross", 2, 2, 3, 7, 4, 6, {}},
      {"one query", 2, 2, 1, 9, 3, 3, {}},
      {"scale", 2, 2, 4, 4, 4, 4, with([](auto& o) { o.scale = 0.3; })},
      {"causal", 2, 2, 6, 6, 4, 4, with([](auto& o) { o.causal = true; })},
      {"causal behind a cache", 2, 2, 2, 6, 4, 4, with([](auto& o) { o.causal = true; })},
      {"window", 2, 2, 6, 6, 4, 4, with([](auto& o) { o.causal = true, o.window = 3; })},
      {"grouped heads", 4, 2, 5, 5, 4, 4, with([](auto& o) { o.causal = true; })},
      {"one key head", 4, 1, 3, 5, 4, 4, {}},
      {"padding", 2, 2, 4, 6, 4, 4, with([](auto& o) {
         o.key_mask = boolean({2, 6}, 5, 0.6);
       })},
      {"boolean mask", 2, 2, 4, 6, 4, 4, with([](auto& o) {
         o.mask = boolean({2, 1, 4, 6}, 6, 0.6);
       })},
      {"additive mask", 2, 2, 4, 6, 4, 4, with([](auto& o) {
         o.mask = random_tensor({2, 4, 6}, 7);
       })},
      {"ALiBi", 2, 2, 5, 5, 4, 4,
       with([](auto& o) { o.causal = true, o.alibi_slopes = random_tensor({2}, 8, 0.1, 1); })},
      {"lengths", 2, 2, 3, 7, 4, 4, with([](auto& o) {
         o.key_lengths = Tensor::from(std::vector<std::int64_t>{7, 3}, {2});
       })},
      {"ragged rows behind a cache", 4, 2, 2, 9, 4, 4, with([](auto& o) {
         o.key_lengths = Tensor::from(std::vector<std::int64_t>{9, 4}, {2});
         o.query_offsets = Tensor::from(std::vector<std::int64_t>{7, 2}, {2});
         o.causal = true, o.relative_bias = random_tensor({4, 10}, 9);
       })},
      {"documents", 2, 2, 5, 5, 4, 4, with([](auto& o) {
         o.causal = true;
         o.key_starts = Tensor::from(std::vector<std::int64_t>{0, 0, 2, 3, 3, 0, 1, 1, 1, 1}, {2, 5});
       })},
      {"relative bias", 2, 2, 4, 6, 4, 4, with([](auto& o) {
         o.relative_bias = random_tensor({2, 9}, 10);
       })},
      {"dropout", 2, 2, 5, 5, 4, 4, with([](auto& o) {
         o.dropout = 0.3, o.stream = {3, 4};
       })},
      {"capped", 4, 2, 5, 5, 4, 4, with([](auto& o) { o.causal = true, o.score_cap = 0.5; })},
      {"capped, with everything added", 2, 2, 3, 6, 4, 4, with([](auto& o) {
         o.score_cap = 0.8, o.scale = 0.7, o.window = 4, o.causal = true;
         o.mask = random_tensor({2, 3, 6}, 11), o.relative_bias = random_tensor({2, 8}, 12);
         o.key_mask = boolean({2, 6}, 13, 0.8);
       })},
      {"longer than a block", 1, 1, 150, 170, 8, 8, with([](auto& o) { o.causal = true; })},
  };
}

TEST(Attention, FusedEqualsTheFormulaInValueWeightsAndGradient) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> fused, plain;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Shape shape =
          i == 0 ? Shape{2, c.heads, c.queries, c.d} : Shape{2, c.kv_heads, c.keys, i == 1 ? c.d : c.e};
      fused.push_back(random_tensor(shape, 100 + i));
      plain.push_back(fused.back().clone());
      fused.back().set_requires_grad();
      plain.back().set_requires_grad();
    }
    AttentionWeights fused_weights, plain_weights;
    const Tensor y = scaled_dot_product_attention(fused[0], fused[1], fused[2], c.options, &fused_weights);
    const Tensor z = attention_by_formula(plain[0], plain[1], plain[2], c.options, &plain_weights);
    expect_near(y, z, 1e-10);
    expect_near(fused_weights.values, plain_weights.values, 1e-10);
    expect_near(scaled_dot_product_attention(fused[0], fused[1], fused[2], c.options), z, 1e-10);
    const Tensor gradient = random_tensor(y.shape(), 103);
    sum(y * gradient).backward();
    sum(z * gradient).backward();
    for (std::size_t i = 0; i < 3; ++i) expect_near(fused[i].grad(), plain[i].grad(), 1e-9);
    AttentionOptions narrow = c.options;
    if (narrow.mask.defined() && narrow.mask.dtype() == DType::f64) narrow.mask = narrow.mask.to(DType::f32);
    if (narrow.relative_bias.defined()) narrow.relative_bias = narrow.relative_bias.to(DType::f32);
    if (narrow.alibi_slopes.defined()) narrow.alibi_slopes = narrow.alibi_slopes.to(DType::f32);
    const auto f = DType::f32;
    expect_near(scaled_dot_product_attention(fused[0].detach().to(f), fused[1].detach().to(f),
                                             fused[2].detach().to(f), narrow),
                z, 2e-5);
  }
}

TEST(Attention, GradientsEqualCentralDifferences) {
  const Tensor q = random_tensor({1, 2, 3, 4}, 110), k = random_tensor({1, 1, 5, 4}, 111),
               v = random_tensor({1, 1, 5, 2}, 112);
  const Tensor bias = random_tensor({2, 1, 5}, 113), relative = random_tensor({2, 7}, 125);
  check_gradients(
      [](const auto& in) {
        AttentionOptions options;
        options.mask = in[3];
        options.relative_bias = in[4];
        options.causal = true;
        return scaled_dot_product_attention(in[0], in[1], in[2], options);
      },
      {q, k, v, bias, relative});
}

// Where scores are large, as T5's, and nearly all weight is on one key, dS is a small rest of large numbers.
TEST(Attention, GradientsOfSaturatedWeightsKeepTheirDigits) {
  const std::int64_t keys = 24, half = 32;
  Tensor k = random_tensor({1, 1, keys, 2 * half}, 71), q = k.clone();
  for (std::int64_t i = 0; i < k.numel(); ++i) {  // 128 of every score, and the likeness to the key
    const bool common = i % (2 * half) < half;
    if (common) k.data<double>()[i] = 2;
    q.data<double>()[i] = common ? 2 : k.data<double>()[i];
  }
  const Tensor v = random_tensor(k.shape(), 72), weight = random_tensor(k.shape(), 73);
  AttentionOptions options;
  options.scale = 1.0;
  const auto gradients = [&](DType dtype, bool formula) {
    std::vector<Tensor> in;
    for (const Tensor& x : {q, k, v, weight}) in.push_back(x.to(DType::f32).to(dtype));  // the same numbers
    for (std::size_t i = 0; i < 3; ++i) in[i].set_requires_grad();
    const Tensor y = formula ? attention_by_formula(in[0], in[1], in[2], options)
                             : scaled_dot_product_attention(in[0], in[1], in[2], options);
    sum(y * in[3]).backward();
    return in;
  };
  const auto exact = gradients(DType::f64, true), got = gradients(DType::f32, false);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto want = exact[i].grad().to_vector<double>(),
               have = got[i].grad().to(DType::f64).to_vector<double>();
    double largest = 0, apart = 0;
    for (std::size_t j = 0; j < want.size(); ++j) {
      if (j % (2 * half) < half && i == 1) continue;  // of what keys share the gradients cancel
      largest = std::max(largest, std::abs(want[j]));
      apart = std::max(apart, std::abs(want[j] - have[j]));
    }
    EXPECT_LE(apart, 1e-4 * largest) << i;
  }
}

// Its weight is 1, whatever the score.
TEST(Attention, AQueryThatSeesOneKeyHasNoGradient) {
  const auto f32 = [](std::uint64_t seed) {
    Tensor x = random_tensor({1, 1, 1, 48}, seed, -2, 2).to(DType::f32);
    x.set_requires_grad();
    return x;
  };
  const Tensor q = f32(75), k = f32(76), v = f32(77), weight = random_tensor(q.shape(), 78).to(DType::f32);
  sum(scaled_dot_product_attention(q, k, v) * weight).backward();
  for (const Tensor& x : {q, k}) EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(48, 0.0f));
}

TEST(Attention, ReadsViewsAsTheyLie) {
  const Tensor x = random_tensor({2, 5, 3, 4}, 114);  // [B, T, H, d]
  const Tensor view = transpose(x, 1, 2);
  expect_near(scaled_dot_product_attention(view, view, view),
              scaled_dot_product_attention(view.contiguous(), view.contiguous(), view.contiguous()), 1e-12);
}

TEST(Attention, QueriesThatSeeNothingGiveZerosNotNaN) {
  AttentionOptions options;
  options.key_mask = Tensor::full({1, 4}, 0, DType::boolean);
  Tensor q = random_tensor({1, 1, 2, 3}, 115), k = random_tensor({1, 1, 4, 3}, 116),
         v = random_tensor({1, 1, 4, 3}, 117);
  for (Tensor* t : {&q, &k, &v}) t->set_requires_grad();
  const Tensor y = scaled_dot_product_attention(q, k, v, options);
  EXPECT_EQ(y.to_vector<double>(), std::vector<double>(6, 0.0));
  sum(y).backward();
  for (const Tensor& t : {q, k, v}) {
    for (const double g : t.grad().to_vector<double>()) EXPECT_EQ(g, 0.0);
  }
}

TEST(Attention, LaterTokensDoNotReachEarlierOnes) {
  AttentionOptions options;
  options.causal = true;
  const Tensor q = random_tensor({1, 2, 6, 4}, 118), k = random_tensor({1, 2, 6, 4}, 119),
               v = random_tensor({1, 2, 6, 4}, 120);
  const Tensor before = scaled_dot_product_attention(q, k, v, options);
  const Tensor k2 = k.clone(), v2 = v.clone();
  slice(k2, 2, 3, 6).copy_from(Tensor::full({1, 2, 3, 4}, 9.0, DType::f64));
  slice(v2, 2, 3, 6).copy_from(Tensor::full({1, 2, 3, 4}, 9.0, DType::f64));
  const Tensor after = scaled_dot_product_attention(q, k2, v2, options);
  EXPECT_EQ(slice(before, 2, 0, 3).to_vector<double>(), slice(after, 2, 0, 3).to_vector<double>());
  EXPECT_NE(slice(before, 2, 3, 6).to_vector<double>(), slice(after, 2, 3, 6).to_vector<double>());
}

TEST(Attention, NeverHoldsAllWeights) {
  const Tensor q = random_tensor({1, 1, 4096, 8}, 121).to(DType::f32);  // all weights would be 67 MB
  Tensor x = q.clone();
  x.set_requires_grad();
  reset_peak_memory();
  const std::size_t before = memory_statistics().bytes_in_use;
  sum(scaled_dot_product_attention(x, x, x)).backward();
  EXPECT_LT(memory_statistics().peak_bytes - before, 4u << 20);
}

TEST(Attention, MemoryGrowsWithTheLength) {
  const int before_threads = threads();
  set_threads(2);
  const auto peak = [](std::int64_t length) {
    std::vector<Tensor> qkv;
    for (std::uint64_t i = 0; i < 3; ++i) {
      qkv.push_back(random_tensor({1, 1, length, 32}, 126 + i).to(DType::f32));
      qkv.back().set_requires_grad();
    }
    AttentionOptions options;
    options.causal = true;
    reset_peak_memory();
    const std::size_t before = memory_statistics().bytes_in_use;
    sum(scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], options)).backward();
    return memory_statistics().peak_bytes - before;
  };
  const std::size_t one = peak(1024), four = peak(4096);
  // o, dO, the three gradients and what a graph holds; beyond them a thread's room, whatever the length.
  EXPECT_LT(four, 4 * one);
  EXPECT_LT(four, 8u * 4096 * 32 * 4 + (4u << 20));
  set_threads(before_threads);
}

TEST(Attention, WeightsOfChosenHeadsAndQueries) {
  const Tensor q = random_tensor({2, 4, 20, 8}, 130), k = random_tensor({2, 2, 30, 8}, 131),
               v = random_tensor({2, 2, 30, 8}, 132);
  AttentionOptions options;
  options.causal = true;
  AttentionWeights fused{{1, 3}, {19, 2}, {}}, plain = fused;
  const Tensor y = scaled_dot_product_attention(q, k, v, options, &fused);
  const Tensor z = attention_by_formula(q, k, v, options, &plain);
  EXPECT_EQ(fused.values.shape(), (Shape{2, 2, 2, 30}));
  expect_near(fused.values, plain.values, 1e-10);
  expect_near(y, z, 1e-10);
  EXPECT_EQ(y.to_vector<double>(), scaled_dot_product_attention(q, k, v, options).to_vector<double>());
}

TEST(Attention, StoredIn16Bits) {
  for (const DType type : {DType::bf16, DType::f16}) {
    std::vector<Tensor> half, wide;
    for (std::uint64_t i = 0; i < 3; ++i) {
      half.push_back(random_tensor({2, 2, 20, 8}, 133 + i).to(type));
      wide.push_back(half.back().to(DType::f32).clone());
      half.back().set_requires_grad();
      wide.back().set_requires_grad();
    }
    const Tensor y = scaled_dot_product_attention(half[0], half[1], half[2]);
    const Tensor z = scaled_dot_product_attention(wide[0], wide[1], wide[2]);
    EXPECT_EQ(y.dtype(), type);
    EXPECT_EQ(y.to(DType::f32).to_vector<float>(), z.to(type).to(DType::f32).to_vector<float>());
    const Tensor mixed = scaled_dot_product_attention(wide[0].detach(), half[1].detach(), half[2].detach());
    EXPECT_EQ(mixed.to_vector<float>(), z.to_vector<float>());
    const Tensor gradient = random_tensor(y.shape(), 136).to(type);
    y.backward(gradient);
    z.backward(gradient.to(DType::f32));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(half[i].grad().dtype(), type);
      EXPECT_EQ(half[i].grad().to(DType::f32).to_vector<float>(),
                wide[i].grad().to(type).to(DType::f32).to_vector<float>());
    }
    expect_near(attention_by_formula(wide[0], half[1], half[2]), z, 2e-5);
  }
}

TEST(Attention, PackedRowsHaveTheBitsOfEachAlone) {
  const std::vector<std::int64_t> lengths{2, 300, 1, 129, 64, 7};
  constexpr std::int64_t kTokens = 503, kLongest = 300;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor q = random_tensor({1, 4, kTokens, 16}, 120).to(dtype),
                 k = random_tensor({1, 2, kTokens, 16}, 121).to(dtype),
                 v = random_tensor({1, 2, kTokens, 24}, 122).to(dtype);
    AttentionOptions options;
    options.window = 90;
    options.alibi_slopes = random_tensor({4}, 123, 0.1, 1).to(compute);
    options.relative_bias = random_tensor({4, 2 * kLongest - 1}, 124).to(compute);
    const Tensor y = packed_attention(q, k, v, lengths, options);
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      const auto row = [&](const Tensor& x) { return slice(x, 2, begin, begin + length); };
      AttentionOptions own = options;
      own.relative_bias = slice(options.relative_bias, 1, kLongest - length, kLongest + length - 1);
      EXPECT_EQ(row(y).to(DType::f64).to_vector<double>(),
                scaled_dot_product_attention(row(q), row(k), row(v), own).to(DType::f64).to_vector<double>())
          << length;
      begin += length;
    }
  }
}

TEST(Attention, SaysWhatIsWrong) {
  const Tensor q = Tensor::zeros({1, 2, 3, 4}), k = Tensor::zeros({1, 2, 5, 4});
  EXPECT_ERROR(scaled_dot_product_attention(q, k, Tensor::zeros({1, 2, 6, 4})),
               "with K dividing H, got f32[1, 2, 3, 4], f32[1, 2, 5, 4] and f32[1, 2, 6, 4]");
  EXPECT_ERROR(scaled_dot_product_attention(q, Tensor::zeros({1, 3, 5, 4}), Tensor::zeros({1, 3, 5, 4})),
               "with K dividing H, got f32[1, 2, 3, 4], f32[1, 3, 5, 4] and f32[1, 3, 5, 4]");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k.to(DType::f64)),
               "with K dividing H, got f32[1, 2, 3, 4], f32[1, 2, 5, 4] and f64[1, 2, 5, 4]");
  AttentionOptions options;
  options.mask = Tensor::zeros({2, 3, 5}, DType::f64);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected a mask of bool or f32, got f64[2, 3, 5]");
  options.mask = Tensor::zeros({3, 4});
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected shapes that broadcast, got [3, 4] and [1, 2, 3, 5]");
  options = {};
  options.key_mask = Tensor::full({1, 4}, 1, DType::boolean);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected a key mask bool[1, 5], got bool[1, 4]");
  options = {};
  options.key_lengths = Tensor::zeros({2}, DType::i64);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options), "expected key lengths i64[1], got i64[2]");
  options = {};
  options.query_offsets = Tensor::zeros({1}, DType::f32);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options), "expected query offsets i64[1], got f32[1]");
  options.query_offsets = Tensor::full({1}, 1e18, DType::i64);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options), "expected query offsets of at most 2^40");
  options = {};
  options.key_starts = Tensor::zeros({1, 4}, DType::i64);
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected key starts i64[1, 3], got i64[1, 4]");
  options.key_starts = Tensor::from(std::vector<std::int64_t>{0, 2, 1}, {1, 3});
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected key starts that do not decrease, got 1 after 2");
  options = {};
  options.relative_bias = Tensor::zeros({2, 8});
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options),
               "expected a relative bias f32[2, 7], got f32[2, 8]");
  AttentionWeights weights;
  weights.heads = {2};
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, {}, &weights), "expected heads below 2, got 2");
  weights.heads = {1, 0};
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, {}, &weights),
               "expected the heads of weights in growing order");
  weights.heads = {};
  weights.queries = {-1};
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, {}, &weights), "expected queries below 3, got -1");
  options = {};
  options.score_cap = -1.0;
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options), "expected a score cap of at least 0, got -1");
  options = {};
  options.dropout = 1.0;
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k, options), "expected dropout in [0, 1), got 1");
}

}  // namespace
}  // namespace heed
