// Multi-head attention: against heads computed one by one, fused projections, decoding with a state, grouped
// heads, and gradients.
#include "heed/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "nn/random_parts.h"
#include "reference/error.h"
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
  const MultiHeadAttention m = random_attention(12, 3, 1);
  const Tensor x = random_tensor({2, 5, 12}, 20), memory = random_tensor({2, 7, 12}, 21);
  Context context;
  Pass pass(context);
  pass.memory = memory;
  expect_near(SelfAttention{m}(x, pass), head_by_head(m, x, x), 1e-12);
  expect_near(CrossAttention{m}(x, pass), head_by_head(m, x, memory), 1e-12);
}

TEST(MultiHeadAttention, Gradients) {
  const MultiHeadAttention m = random_attention(4, 2, 2);
  Context context;
  check_gradients(
      [&](const auto& in) {
        SelfAttention n{m};
        n.attention.q.weight = in[1];
        n.attention.k.weight = in[2];
        n.attention.v.bias = in[3];
        n.attention.out.weight = in[4];
        Pass pass(context);
        pass.self.causal = true;
        return n(in[0], pass);
      },
      {random_tensor({2, 3, 4}, 22), m.q.weight.tensor(), m.k.weight.tensor(), m.v.bias,
       m.out.weight.tensor()});
}

// A fused projection is the concatenation of three, in the order that its split says.
TEST(MultiHeadAttention, FusedProjectionsAreSplitByKindOrByHead) {
  MultiHeadAttention m = random_attention(8, 4, 9);
  m.kv_heads = 2;
  m.k = random_linear(4, 8, 30);
  m.v = random_linear(4, 8, 40);
  Context context;
  Pass pass(context);
  const Tensor x = random_tensor({2, 3, 8}, 41);
  MultiHeadAttention grouped = m;
  grouped.fused = qkv_by_kind({concat({m.q.weight.tensor(), m.k.weight.tensor(), m.v.weight.tensor()}, 0),
                               concat({m.q.bias, m.k.bias, m.v.bias}, 0)},
                              4, 2, 2);
  expect_near(SelfAttention{grouped}(x, pass), SelfAttention{m}(x, pass), 1e-12);
  MultiHeadAttention whole = random_attention(8, 4, 9), by_head = whole;
  std::vector<Tensor> weights, biases;
  for (std::int64_t head = 0; head < 4; ++head) {
    for (const Linear& part : {whole.q, whole.k, whole.v}) {
      weights.push_back(slice(part.weight.tensor(), 0, 2 * head, 2 * head + 2));
      biases.push_back(slice(part.bias, 0, 2 * head, 2 * head + 2));
    }
  }
  by_head.fused = qkv_by_head({concat(weights, 0), concat(biases, 0)}, 2);
  expect_near(SelfAttention{by_head}(x, pass), SelfAttention{whole}(x, pass), 1e-12);
}

TEST(MultiHeadAttention, CrossAttentionMayReadKeysAndValuesInOneMatrix) {
  MultiHeadAttention m = random_attention(8, 4, 9);
  m.k = random_linear(8, 6, 30);
  m.v = random_linear(8, 6, 40);
  MultiHeadAttention fused = m;
  fused.k = fused.v = {};
  fused.fused = kv_by_kind(
      {concat({m.k.weight.tensor(), m.v.weight.tensor()}, 0), concat({m.k.bias, m.v.bias}, 0)}, 4, 2);
  Context context;
  Pass pass(context);
  pass.memory = random_tensor({2, 5, 6}, 42);
  const Tensor x = random_tensor({2, 3, 8}, 41), want = CrossAttention{m}(x, pass);
  expect_near(CrossAttention{fused}(x, pass), want, 1e-12);
  const auto state = CrossAttention{fused}.make_state(pass.memory);
  pass.memory = {};
  expect_near(CrossAttention{fused}(x, pass, state.get()), want, 1e-12);
}

TEST(MultiHeadAttention, QueriesAndKeysAreNormedHeadByHead) {
  MultiHeadAttention m = random_attention(8, 4, 9);
  const Norm q_norm{NormKind::rms, random_tensor({2}, 31, 0.5, 1.5), {}, 1e-6},
      k_norm{NormKind::rms, random_tensor({2}, 32, 0.5, 1.5), {}, 1e-6};
  const Tensor x = random_tensor({2, 3, 8}, 41);
  std::map<std::string, Tensor> plain, normed;
  const auto listen = [&](std::map<std::string, Tensor>& heard) {
    Taps taps;
    taps.listen("*", [&](const std::string& name, Tensor& value) { heard[name] = value; });
    Context listening{.taps = &taps};
    Pass pass(listening);
    SelfAttention{m}(x, pass);
  };
  listen(plain);
  m.q_norm = q_norm;
  m.k_norm = k_norm;
  listen(normed);
  expect_near(normed.at(".q").contiguous(), q_norm(plain.at(".q").contiguous()), 1e-12);
  expect_near(normed.at(".k").contiguous(), k_norm(plain.at(".k").contiguous()), 1e-12);
  expect_near(normed.at(".v").contiguous(), plain.at(".v").contiguous(), 0);
}

TEST(MultiHeadAttention, AWeightForEveryRowNormsAllHeadsTogether) {
  MultiHeadAttention m = random_attention(8, 4, 9);
  const Norm norm{NormKind::rms, random_tensor({8}, 31, 0.5, 1.5), {}, 1e-6};
  const Tensor x = random_tensor({2, 3, 8}, 41);
  Tensor heard;
  Taps taps;
  taps.listen(".q", [&](const std::string&, Tensor& value) { heard = value; });
  Context listening{.taps = &taps};
  Pass pass(listening);
  m.q_norm = norm;
  SelfAttention{m}(x, pass);
  expect_near(reshape(permute(heard, {0, 2, 1, 3}), {2, 3, 8}), norm(m.q(x)), 1e-12);
}

TEST(MultiHeadAttention, DecodedPartsEqualTheWhole) {
  const NoGradients guard;
  MultiHeadAttention m = random_attention(8, 4, 3);
  m.kv_heads = 2;  // grouped: two query heads read each key head
  m.k = random_linear(4, 8, 50);
  m.v = random_linear(4, 8, 60);
  Stack stack;
  stack.layers.push_back({{{.sublayers = {{.name = "self_attn", .part = SelfAttention{m}}}}}});
  const Tensor x = random_tensor({2, 40, 8}, 23);  // more than one growth of the state
  AttentionOptions causal;
  causal.causal = true;
  const Tensor whole = reference::run(stack, x, causal);
  StackState state(stack, 2);
  Context context;
  std::int64_t at = 0;
  for (const std::int64_t count : {1, 16, 1, 5, 1, 9, 7}) {
    Pass pass(context);
    pass.self.causal = true;
    expect_near(stack(slice(x, 1, at, at + count), pass, &state), slice(whole, 1, at, at + count), 1e-12);
    at += count;
  }
  ASSERT_EQ(at, 40);
  EXPECT_EQ(state.lengths().longest, 40);
}

// The pattern counts from the start of a row, wherever a pass starts.
TEST(MultiHeadAttention, DecodedPartsOfASparseAttentionEqualTheWhole) {
  const NoGradients guard;
  for (const SparsePattern& pattern :
       {SparsePattern{SparseKind::strided, 4}, SparsePattern{SparseKind::fixed, 4, 2}}) {
    MultiHeadAttention m = random_attention(8, 4, 3);
    m.sparse = pattern;
    Stack stack;
    stack.layers.push_back({{{.sublayers = {{.name = "self_attn", .part = SelfAttention{m}}}}}});
    const Tensor x = random_tensor({2, 40, 8}, 23);
    AttentionOptions options;
    options.causal = true;
    const Tensor whole = reference::run(stack, x, options);
    options.mask = Tensor::empty({40, 40}, DType::boolean);
    for (std::int64_t i = 0; i < 1600; ++i) options.mask.data<bool>()[i] = pattern.sees(i / 40, i % 40);
    m.sparse.reset();
    Stack dense;
    dense.layers.push_back({{{.sublayers = {{.name = "self_attn", .part = SelfAttention{m}}}}}});
    expect_near(whole, reference::run(dense, x, options), 1e-12);
    // Row 1 has one token less than row 0 from the first pass on.
    StackState state(stack, 2);
    Context context;
    std::int64_t at = 0;
    for (const std::int64_t count : {3, 16, 1, 5, 1, 9}) {
      Pass pass(context);
      pass.self.causal = true;
      const Tensor first = slice(slice(x, 0, 0, 1), 1, at, at + count);
      const std::int64_t behind = at == 0 ? 0 : 1;
      const Tensor second = slice(slice(x, 0, 1, 2), 1, at - behind, at - behind + count);
      if (at == 0) pass.lengths = {count, count - 1};
      const Tensor y = stack(concat({first, second}, 0), pass, &state);
      expect_near(slice(y, 0, 0, 1), slice(slice(whole, 0, 0, 1), 1, at, at + count), 1e-12);
      const std::int64_t known = at == 0 ? count - 1 : count;
      expect_near(slice(slice(y, 0, 1, 2), 1, 0, known),
                  slice(slice(whole, 0, 1, 2), 1, at - behind, at - behind + known), 1e-12);
      at += count;
    }
  }
}

TEST(MultiHeadAttention, StatesTakeNoGradients) {
  Stack stack;
  stack.layers.push_back(
      {{{.sublayers = {{.name = "self_attn", .part = SelfAttention{random_attention(4, 2, 4)}}}}}});
  Tensor x = random_tensor({1, 2, 4}, 24);
  x.set_requires_grad();
  StackState state(stack, 1);
  Context context;
  Pass pass(context);
  EXPECT_ERROR(stack(x, pass, &state), "key-value cache: expected inputs that need no gradient");
}

TEST(MultiHeadAttention, TrainingNeedsAGenerator) {
  MultiHeadAttention m = random_attention(4, 2, 5);
  m.dropout = 0.5;
  const Tensor x = random_tensor({1, 2, 4}, 25);
  Context training{true, nullptr, nullptr};
  Pass pass(training);
  const SelfAttention attention{m};
  EXPECT_ERROR(attention(x, pass), "dropout: no random generator");
  Generator generator(1);
  training.generator = &generator;
  const auto first = attention(x, pass).to_vector<double>();
  generator.seek(0);
  EXPECT_EQ(attention(x, pass).to_vector<double>(), first);  // the stream decides
  EXPECT_NE(attention(x, pass).to_vector<double>(), first);
}

}  // namespace
}  // namespace heed
