// Sparse attention: the patterns, the kernel against the plain formula (value, weights and gradients) and
// against central differences, queries behind a cache, and what must not change a bit.
#include "heed/ops/attention_variants.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/shape.h"
#include "kernels/kernel_case.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

constexpr SparsePattern strided(std::int64_t stride) { return {SparseKind::strided, stride}; }
constexpr SparsePattern fixed(std::int64_t stride, std::int64_t summary) {
  return {SparseKind::fixed, stride, summary};
}

Tensor numbers_of(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {count});
}

// Keys of two rows: the first row misses some at both ends and in between.
Tensor some_keys(std::int64_t keys) {
  const Tensor mask = Tensor::full({2, keys}, 1, DType::boolean);
  for (std::int64_t s = 0; s < keys; ++s) mask.data<bool>()[s] = s > 1 && s % 5 != 3 && s < keys - 2;
  return mask;
}

TEST(SparsePattern, IsThatOfThePaper) {
  const auto keys_of = [](const SparsePattern& pattern, std::int64_t query) {
    std::vector<std::int64_t> keys;
    for (std::int64_t s = 0; s < 20; ++s) {
      if (pattern.sees(query, s)) keys.push_back(s);
    }
    return keys;
  };
  EXPECT_EQ(keys_of(strided(4), 14), (std::vector<std::int64_t>{2, 6, 10, 11, 12, 13, 14}));
  EXPECT_EQ(keys_of(strided(4), 2), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(keys_of(fixed(4, 1), 14), (std::vector<std::int64_t>{3, 7, 11, 12, 13, 14}));
  EXPECT_EQ(keys_of(fixed(4, 2), 9), (std::vector<std::int64_t>{2, 3, 6, 7, 8, 9}));
}

struct SparseCase {
  const char* name;
  std::int64_t heads, kv_heads, queries, keys, d, e;
  SparseAttentionOptions options;
};

std::vector<SparseCase> sparse_cases() {
  std::vector<SparseCase> all;
  for (const SparsePattern& p : {strided(4), strided(1), strided(7), strided(100), fixed(4, 1), fixed(4, 3),
                                 fixed(1, 1), fixed(7, 2), fixed(100, 5)}) {
    all.push_back({"one head", 1, 1, 13, 13, 4, 4, {.pattern = p}});
    all.push_back({"grouped heads", 4, 2, 37, 37, 5, 3, {.pattern = p, .scale = 0.4}});
    all.push_back({"behind a cache", 2, 2, 6, 31, 4, 4, {.pattern = p}});
    all.push_back({"one query behind a cache", 2, 1, 1, 30, 4, 4, {.pattern = p}});
    all.push_back(
        {"ragged rows behind a cache",
         2,
         2,
         9,
         40,
         4,
         4,
         {.pattern = p, .key_lengths = numbers_of({40, 22}), .query_offsets = numbers_of({31, 14})}});
    all.push_back({"padding", 2, 2, 33, 33, 4, 4, {.pattern = p, .key_mask = some_keys(33)}});
  }
  all.push_back({"longer than a block", 1, 1, 400, 400, 8, 8, {.pattern = strided(20)}});
  all.push_back({"longer than a block", 2, 1, 400, 400, 8, 8, {.pattern = fixed(20, 3)}});
  return all;
}

TEST(SparseAttention, EqualsTheFormulaInValueWeightsAndGradient) {
  for (const SparseCase& c : sparse_cases()) {
    SCOPED_TRACE(std::string(c.name) + ", " +
                 (c.options.pattern.kind == SparseKind::fixed ? "fixed " : "strided ") +
                 std::to_string(c.options.pattern.stride));
    std::vector<Tensor> fused, plain, narrow;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Shape shape =
          i == 0 ? Shape{2, c.heads, c.queries, c.d} : Shape{2, c.kv_heads, c.keys, i == 1 ? c.d : c.e};
      const Tensor x = random_tensor(shape, 100 + i);
      fused.push_back(x.clone().set_requires_grad());
      plain.push_back(x.clone().set_requires_grad());
      narrow.push_back(x.to(DType::f32).set_requires_grad());
    }
    AttentionWeights fused_weights, plain_weights;
    const Tensor y = sparse_attention(fused[0], fused[1], fused[2], c.options, &fused_weights);
    const Tensor z = sparse_attention_by_formula(plain[0], plain[1], plain[2], c.options, &plain_weights);
    expect_near(y, z, 1e-10);
    expect_near(fused_weights.values, plain_weights.values, 1e-10);
    const Tensor x = sparse_attention(narrow[0], narrow[1], narrow[2], c.options);
    expect_near(x, z, 1e-5);
    const Tensor gradient = random_tensor(y.shape(), 103);
    sum(y * gradient).backward();
    sum(z * gradient).backward();
    sum(x * gradient.to(DType::f32)).backward();
    for (std::size_t i = 0; i < 3; ++i) {
      expect_near(fused[i].grad(), plain[i].grad(), 1e-9);
      expect_near(narrow[i].grad(), plain[i].grad(), 1e-4);
    }
  }
}

TEST(SparseAttention, GradientsEqualCentralDifferences) {
  const Tensor q = random_tensor({1, 2, 9, 3}, 1), k = random_tensor({1, 1, 9, 3}, 2),
               v = random_tensor({1, 1, 9, 2}, 3);
  for (const SparsePattern& pattern : {strided(3), fixed(3, 1), fixed(3, 2)}) {
    const SparseAttentionOptions options{.pattern = pattern};
    check_gradients([&](const auto& in) { return sparse_attention(in[0], in[1], in[2], options); },
                    {q, k, v});
  }
}

TEST(SparseAttention, WeightsAreZerosOutsideThePattern) {
  const Tensor x = random_tensor({1, 2, 30, 4}, 1);
  for (const SparsePattern& pattern : {strided(5), fixed(5, 2)}) {
    AttentionWeights weights;
    sparse_attention(x, x, x, {.pattern = pattern}, &weights);
    const auto values = weights.values.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      EXPECT_EQ(values[i] > 0, pattern.sees(at / 30 % 30, at % 30)) << i;
    }
  }
}

TEST(SparseAttention, ARowIsTheSameAloneInABatchAndWithAnyThreads) {
  const std::int64_t time = 200;
  const DType f = DType::f32;
  const Tensor q = random_tensor({3, 4, time, 17}, 1).to(f), k = random_tensor({3, 2, time, 17}, 2).to(f),
               v = random_tensor({3, 2, time, 9}, 3).to(f);
  for (const SparsePattern& pattern : {strided(14), fixed(14, 3)}) {
    expect_same_for_all_threads([&] {
      std::vector<Tensor> in;
      for (const Tensor& x : {q, k, v}) in.push_back(x.clone().set_requires_grad());
      const Tensor y = sparse_attention(in[0], in[1], in[2], {.pattern = pattern});
      sum(y * y).backward();
      std::vector<std::vector<float>> bits{y.to_vector<float>()};
      for (const Tensor& x : in) bits.push_back(x.grad().to_vector<float>());
      return bits;
    });
    const std::int64_t length = 77;
    const Tensor together =
        sparse_attention(q, k, v, {.pattern = pattern, .key_lengths = numbers_of({time, length, 3})});
    const auto row = [&](const Tensor& x) { return slice(slice(x, 0, 1, 2), 2, 0, length); };
    const Tensor alone = sparse_attention(row(q), row(k), row(v), {.pattern = pattern});
    EXPECT_EQ(row(together).to_vector<float>(), alone.to_vector<float>());
  }
}

TEST(SparseAttention, SaysWhatIsWrong) {
  const Tensor x = random_tensor({1, 2, 4, 3}, 1);
  EXPECT_ERROR(sparse_attention(x, x, x, {}), "expected a stride of at least 1, got 0");  // no stride
  EXPECT_ERROR(sparse_attention(x, x, x, {.pattern = fixed(2, 3)}),
               "expected from 1 to 2 summary keys of each block, got 3");
  EXPECT_ERROR(sparse_attention(x, slice(x, 2, 0, 3), slice(x, 2, 0, 3), {.pattern = strided(2)}),
               "expected queries at positions of the 3 keys, got 4 from position -1");
  EXPECT_ERROR(sparse_attention(x, x, x, {.pattern = strided(2), .query_offsets = numbers_of({1})}),
               "expected queries at positions of the 4 keys, got 4 from position 1");
  EXPECT_ERROR(sparse_attention(x, x, x, {.pattern = strided(2), .key_lengths = numbers_of({1, 2})}),
               "expected key lengths i64[1], got i64[2]");
  EXPECT_ERROR(
      sparse_attention(x.to(DType::f16), x.to(DType::f16), x.to(DType::f16), {.pattern = strided(2)}),
      "expected q, k and v all f32 or all f64, got f16");
}

}  // namespace
}  // namespace heed
