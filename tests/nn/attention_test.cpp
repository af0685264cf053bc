// Multi-head attention: against heads computed one by one, with a cache, grouped heads, and gradients.
#include "heed/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "nn/random_parts.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_attention;
using reference::random_linear;
using reference::random_tensor;

// Head h by equation 1 on columns [h d, (h + 1) d) of the projections; heads joined, then projected.
Tensor head_by_head(const MultiHeadAttention& m, const Tensor& x, const Tensor& memory) {
  const Tensor q = m.q(x), k = m.k(memory), v = m.v(memory);
  const std::int64_t d = q.size(2) / m.heads;
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < m.heads; ++h) {
    auto columns = [&](const Tensor& t) { return slice(t, 2, h * d, (h + 1) * d).contiguous(); };
    const Tensor scores =
        matmul(columns(q), transpose(columns(k), 1, 2)) * (1.0 / std::sqrt(static_cast<double>(d)));
    heads.push_back(matmul(softmax(scores, -1), columns(v)));
  }
  return m.out(concat(heads, 2));
}

TEST(MultiHeadAttention, EqualsItsHeadsOneByOne) {
  const MultiHeadAttention m = random_attention("a", 12, 3, 1);
  const Tensor x = random_tensor({2, 5, 12}, 20), memory = random_tensor({2, 7, 12}, 21);
  Context context;
  expect_near(m(x, {}, nullptr, context), head_by_head(m, x, x), 1e-12);
  expect_near(m.cross(x, memory, {}, nullptr, context), head_by_head(m, x, memory), 1e-12);
}

TEST(MultiHeadAttention, Gradients) {
  MultiHeadAttention m = random_attention("a", 4, 2, 2);
  Context context;
  AttentionOptions causal;
  causal.causal = true;
  check_gradients(
      [&](const auto& in) {
        MultiHeadAttention n = m;
        n.q.weight = in[1];
        n.k.weight = in[2];
        n.v.bias = in[3];
        n.out.weight = in[4];
        return n(in[0], causal, nullptr, context);
      },
      {random_tensor({2, 3, 4}, 22), m.q.weight, m.k.weight, m.v.bias, m.out.weight});
}

TEST(MultiHeadAttention, CachedPartsEqualTheWhole) {
  const NoGradients guard;
  MultiHeadAttention m = random_attention("a", 8, 4, 3);
  m.kv_heads = 2;  // grouped: two query heads read each key head
  m.k = random_linear(4, 8, 50);
  m.v = random_linear(4, 8, 60);
  const Tensor x = random_tensor({2, 40, 8}, 23);  // more than one growth of the cache
  Context context;
  AttentionOptions causal;
  causal.causal = true;
  const Tensor whole = m(x, causal, nullptr, context);
  KeyValueCache cache;
  std::int64_t at = 0;
  for (const std::int64_t count : {1, 16, 1, 5, 1, 9, 7}) {
    expect_near(m(slice(x, 1, at, at + count), causal, &cache, context), slice(whole, 1, at, at + count),
                1e-12);
    at += count;
  }
  ASSERT_EQ(at, 40);
  EXPECT_EQ(cache.length, 40);
}

TEST(MultiHeadAttention, CachesTakeNoGradients) {
  const MultiHeadAttention m = random_attention("a", 4, 2, 4);
  Tensor x = random_tensor({1, 2, 4}, 24);
  x.set_requires_grad();
  KeyValueCache cache;
  Context context;
  EXPECT_THROW(m(x, {}, &cache, context), Error);
}

TEST(MultiHeadAttention, TrainingNeedsAGenerator) {
  MultiHeadAttention m = random_attention("a", 4, 2, 5);
  m.dropout = 0.5;
  const Tensor x = random_tensor({1, 2, 4}, 25);
  Context training{true, nullptr, nullptr};
  EXPECT_THROW(m(x, {}, nullptr, training), Error);
  Generator generator(1);
  training.generator = &generator;
  const auto first = m(x, {}, nullptr, training).to_vector<double>();
  generator.seek(0);
  EXPECT_EQ(m(x, {}, nullptr, training).to_vector<double>(), first);  // the stream decides
  EXPECT_NE(m(x, {}, nullptr, training).to_vector<double>(), first);
}

}  // namespace
}  // namespace heed
