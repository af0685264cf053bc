// Stored keys and values: attention over them against sums in double over numbers that are rounded here; and
// what a decoding promises, whatever it stores.
#include "heed/nn/cache_dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/ops.h"
#include "heed/threads.h"
#include "nn/key_value_state.h"
#include "ops/attention_operands.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::expect_near;
using reference::random_tensor;

// The nearest number of `digits` binary digits, or multiple of 2^least.
double nearest(double x, int digits, int least) {
  if (x == 0) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - digits, least);
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

// Rows of `width` numbers.
std::vector<double> rounded(std::vector<double> x, std::size_t width, CacheDType dtype) {
  for (std::size_t first = 0; first < x.size(); first += width) {
    float scale = 0;  // quotients are of f32
    for (std::size_t i = first; i < first + width; ++i)
      scale = std::max(scale, static_cast<float>(std::abs(x[i])) / 127);
    for (std::size_t i = first; i < first + width; ++i) {
      if (dtype == CacheDType::bf16) x[i] = nearest(x[i], 8, -133);
      if (dtype == CacheDType::f16) x[i] = nearest(x[i], 11, -24);
      if (dtype == CacheDType::int8 && scale > 0)
        x[i] = static_cast<double>(std::nearbyint(static_cast<float>(x[i]) / scale)) *
               static_cast<double>(scale);
    }
  }
  return x;
}

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, d;
};

// Causal attention of the last queries, by its definition.
std::vector<double> attention_in_double(const Sizes& n, const std::vector<double>& q,
                                        const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> o(q.size(), 0.0);
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t row = 0; row < n.batch * n.heads * n.queries; ++row) {
    const std::int64_t t = row % n.queries, head = row / n.queries, b = head / n.heads;
    const std::int64_t kv = b * n.kv_heads + head % n.heads / (n.heads / n.kv_heads);
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t s = 0; s <= n.keys - n.queries + t; ++s) {
      double score = 0;
      for (std::int64_t c = 0; c < n.d; ++c)
        score += q[at(row * n.d + c)] * k[at((kv * n.keys + s) * n.d + c)];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(n.d))));
      sum += weights.back();
    }
    for (std::int64_t s = 0; s < std::ssize(weights); ++s) {
      for (std::int64_t c = 0; c < n.d; ++c)
        o[at(row * n.d + c)] += weights[at(s)] / sum * v[at((kv * n.keys + s) * n.d + c)];
    }
  }
  return o;
}

// What a cache that has room for more gives back.
std::pair<Tensor, Tensor> through_cache(const Tensor& k, const Tensor& v, CacheDType dtype) {
  KeyValueState state;
  const std::int64_t first = k.size(2) / 3;
  state.append(slice(k, 2, 0, first), slice(v, 2, 0, first), {}, dtype);
  state.append(slice(k, 2, first, k.size(2)), slice(v, 2, first, k.size(2)), {.longest = first}, dtype);
  return {state.keys(k.size(2)), state.values(k.size(2))};
}

TEST(CacheDType, AttentionIsThatOfRoundedKeysAndValues) {
  for (const CacheDType dtype : kCacheDTypes) {
    for (const int d : {8, 64, 80, 128}) {
      for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{1, 300}, {40, 150}}) {
        const Sizes n{2, 6, 2, queries, keys, d};
        const Tensor q = random_tensor({n.batch, n.heads, queries, d}, 1).to(DType::f32),
                     k = random_tensor({n.batch, n.kv_heads, keys, d}, 2).to(DType::f32),
                     v = random_tensor({n.batch, n.kv_heads, keys, d}, 3).to(DType::f32);
        const auto [stored_k, stored_v] = through_cache(k, v, dtype);
        AttentionOptions options;
        options.causal = true;
        const Tensor got = scaled_dot_product_attention(q, stored_k, stored_v, options);
        const auto numbers = [](const Tensor& x) { return x.to(DType::f64).to_vector<double>(); };
        const auto width = static_cast<std::size_t>(d);
        const auto want = attention_in_double(n, numbers(q), rounded(numbers(k), width, dtype),
                                              rounded(numbers(v), width, dtype));
        expect_near(got, Tensor::from(want, q.shape()), 1e-5);
        // It is the attention over these numbers in f32, to the bit.
        const Tensor wide = scaled_dot_product_attention(q, widened(stored_k, DType::f32),
                                                         widened(stored_v, DType::f32), options);
        EXPECT_EQ(got.to_vector<float>(), wide.to_vector<float>()) << name_of(dtype) << " " << d;
        expect_near(attention_by_formula(q, stored_k, stored_v, options), got, 2e-5);
      }
    }
  }
}

TEST(CacheDType, CachesTakeTheBytesOfTheirDType) {
  for (const CacheDType dtype : kCacheDTypes) {
    KeyValueState state;
    const Tensor k = random_tensor({2, 3, 16, 64}, 2).to(DType::f32);
    state.append(k, k, {}, dtype);
    EXPECT_EQ(state.bytes(), static_cast<std::size_t>(2 * 2 * 3 * 16 * cache_bytes(dtype, 64)));
    MemoryState memory(k, k);
    memory.store_as(dtype);
    EXPECT_EQ(memory.bytes(), state.bytes());
  }
  EXPECT_EQ(cache_bytes(CacheDType::f32, 64), 256);
  EXPECT_EQ(cache_bytes(CacheDType::f16, 64), 128);
  EXPECT_EQ(cache_bytes(CacheDType::int8, 64), 68);
}

TEST(CacheDType, HasOneForAllSteps) {
  const Tensor k = random_tensor({1, 1, 4, 8}, 2).to(DType::f32);
  KeyValueState state;
  state.append(k, k, {}, CacheDType::bf16);
  EXPECT_ERROR(
      state.append(k, k, {.longest = 4}, CacheDType::int8),
      "key-value cache: expected cache_dtype bf16, in which earlier steps stored keys and values, got "
      "int8");
  state.append(k, k, {}, CacheDType::int8);  // all tokens forgotten
  EXPECT_EQ(state.keys(4).dtype(), DType::u8);
  MemoryState memory(k, k);
  memory.store_as(CacheDType::f16);
  memory.store_as(CacheDType::f16);
  EXPECT_ERROR(memory.store_as(CacheDType::f32), "expected cache_dtype f16, in which earlier steps");
}

TEST(CacheDType, AttentionToInt8RowsHasNoGradient) {
  Tensor q = random_tensor({1, 1, 2, 8}, 1).to(DType::f32);
  const Tensor k = int8_rows(random_tensor({1, 1, 4, 8}, 2).to(DType::f32));
  q.set_requires_grad();
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k),
               "attention to int8 rows: expected inputs that need no gradient");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, slice(k, 3, 0, 3)), "or both as int8 rows");
}

TEST(CacheDType, HasNames) {
  for (const CacheDType dtype : kCacheDTypes) EXPECT_EQ(cache_dtype_from_name(name_of(dtype)), dtype);
  EXPECT_EQ(cache_dtype_from_name("f64"), std::nullopt);
}

TEST(CacheDType, WhoseLengthIsKnownGrowsNoLarger) {
  const auto bytes_after = [](std::int64_t steps, std::int64_t most) {
    KeyValueState state;
    const Tensor one = Tensor::zeros({1, 2, 1, 8});
    for (std::int64_t step = 0; step < steps; ++step) state.append(one, one, {step}, CacheDType::f32, most);
    return static_cast<std::int64_t>(state.bytes()) / (2 * 2 * 8 * 4);  // positions
  };
  EXPECT_EQ(bytes_after(1, 100), 100);
  EXPECT_EQ(bytes_after(1, 300), 128);
  EXPECT_EQ(bytes_after(300, 300), 300);
  EXPECT_EQ(bytes_after(301, 300), 304);  // more than was said
  EXPECT_EQ(bytes_after(513, 8192), 640);
  EXPECT_EQ(bytes_after(17, 0), 32);
}

}  // namespace
}  // namespace heed
