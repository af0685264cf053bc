// Linear attention as a part: heads, gradients, taps, and decoding with sums instead of keys and values.
#include "heed/nn/attention.h"

#include <gtest/gtest.h>

#include <map>

#include "heed/ops/attention_variants.h"
#include "heed/ops/shape.h"
#include "nn/random_parts.h"
#include "reference/error.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_linear;
using reference::random_tensor;

LinearSelfAttention grouped(std::uint64_t seed) {
  MultiHeadAttention m = reference::random_attention(8, 4, seed);
  m.kv_heads = 2;
  m.k = random_linear(4, 8, seed + 50);
  m.v = random_linear(4, 8, seed + 60);
  return {m};
}

Stack stack_of(std::int64_t layers) {
  Stack stack;
  stack.name = "decoder";
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto seed = static_cast<std::uint64_t>(100 * i);
    stack.layers.push_back({{pre_norm("self_attn", reference::random_norm(8, seed + 7), grouped(seed))}});
  }
  return stack;
}

AttentionOptions causal() {
  AttentionOptions options;
  options.causal = true;
  return options;
}

TEST(LinearSelfAttention, IsItsFormulaHeadByHead) {
  const LinearSelfAttention part = grouped(1);
  const MultiHeadAttention& m = part.attention;
  const Tensor x = random_tensor({2, 5, 8}, 3);
  Context context;
  Pass pass(context);
  pass.self.causal = true;
  const auto split = [&](const Tensor& y, std::int64_t heads) {
    return transpose(reshape(y, {2, 5, heads, 2}), 1, 2);
  };
  const Tensor heads =
      linear_attention_by_formula(split(m.q(x), 4), split(m.k(x), 2), split(m.v(x), 2), {.causal = true});
  expect_near(part(x, pass), m.out(reshape(transpose(heads, 1, 2), {2, 5, 8})), 1e-12);
}

TEST(LinearSelfAttention, Gradients) {
  check_gradients(
      [](const auto& in) {
        LinearSelfAttention part = grouped(1);
        part.attention.q.weight = in[1];
        Context context;
        Pass pass(context);
        pass.self.causal = true;
        return part(in[0], pass);
      },
      {random_tensor({2, 4, 8}, 3), random_tensor({8, 8}, 4)});
}

TEST(LinearSelfAttention, PaddingDoesNotReachOtherTokens) {
  const Stack stack = stack_of(1);
  const Tensor x = random_tensor({1, 6, 8}, 3);
  AttentionOptions options;
  options.key_mask = Tensor::full({1, 6}, 1, DType::boolean);
  for (std::int64_t t = 4; t < 6; ++t) options.key_mask.data<bool>()[t] = false;
  const Tensor whole = slice(reference::run(stack, x, options), 1, 0, 4);
  EXPECT_EQ(whole.to_vector<double>(), reference::run(stack, slice(x, 1, 0, 4)).to_vector<double>());
}

TEST(LinearSelfAttention, RowsThatAreReorderedEqualWholePassesAndTakeNoMoreMemory) {
  const NoGradients guard;
  const Stack stack = stack_of(2);
  Context context;
  StackState state(stack, 2);
  std::vector<Tensor> told(2);  // what each row has been given, [1, T, 8]
  std::uint64_t seed = 100;
  const auto pass_with = [&](std::int64_t time, const std::vector<std::int64_t>& lengths) {
    const auto rows = static_cast<std::int64_t>(told.size());
    const Tensor x = random_tensor({rows, time, 8}, seed++);
    Pass pass(context);
    pass.self.causal = true;
    pass.lengths = lengths;
    const Tensor y = stack(x, pass, &state);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const std::int64_t count = lengths.empty() ? time : lengths[r];
      const Tensor more = slice(slice(x, 0, row, row + 1), 1, 0, count);
      told[r] = told[r].defined() ? concat({told[r], more}, 1) : more.contiguous();
      const Tensor whole = reference::run(stack, told[r], causal());
      const std::int64_t length = whole.size(1);
      expect_near(slice(slice(y, 0, row, row + 1), 1, 0, count), slice(whole, 1, length - count, length),
                  1e-12);
    }
  };
  const auto reorder = [&](const std::vector<std::int64_t>& rows) {
    state.reorder(rows);
    std::vector<Tensor> tokens;
    for (const std::int64_t row : rows) tokens.push_back(told[static_cast<std::size_t>(row)]);
    told = tokens;
  };
  pass_with(3, {3, 1});
  const std::size_t bytes = state.bytes();
  EXPECT_EQ(bytes, 2u * 2 * 2 * 2 * 3 * sizeof(double));  // layers, rows, key heads, d, e + 1
  reorder({0, 0, 1, 1});
  pass_with(1, {});
  reorder({1, 0, 3, 3});
  pass_with(70, {70, 2, 65, 1});
  reorder({2, 0});
  pass_with(1, {});
  EXPECT_EQ(state.bytes(), bytes);
}

TEST(LinearSelfAttention, TapsSeeWeightsAndMayReplaceThem) {
  const LinearSelfAttention part = grouped(1);
  const Tensor x = random_tensor({2, 3, 8}, 5);
  Context silent;
  Pass silent_pass(silent);
  const Tensor want = part(x, silent_pass);
  std::map<std::string, Tensor> seen;
  Taps taps;
  taps.listen("a.*", [&](const std::string& name, Tensor& value) {
    if (name == "a.weights") value = value.clone();  // the same numbers
    seen[name] = value;
  });
  Context context{false, nullptr, &taps};
  Pass pass(context);
  pass.name = "a";
  expect_near(part(x, pass), want, 1e-12);
  EXPECT_EQ(seen.size(), 8u);  // q, k, v, transformed, weights, heads, contributions, out
  ASSERT_EQ(seen.at("a.weights").shape(), (Shape{2, 4, 3, 3}));
  expect_near(sum(seen.at("a.weights"), -1), Tensor::full({2, 4, 3}, 1, DType::f64), 1e-12);
}

// With a listener from the first token on, and reordered rows of different lengths.
TEST(LinearSelfAttention, DecodedWeightsAreThoseOfTheWhole) {
  const NoGradients guard;
  Stack stack;
  stack.layers.push_back({{{.sublayers = {{.name = "self_attn", .part = grouped(1)}}}}});
  const Tensor x = random_tensor({2, 6, 8}, 5);
  Tensor weights;
  Taps taps;
  taps.listen("*.weights", [&](const std::string&, Tensor& value) { value = weights = value.clone(); });
  Context context{.taps = &taps}, silent;
  const auto row = [](const Tensor& t, int axis, std::int64_t i) { return slice(t, axis, i, i + 1); };
  const auto pass_with = [&](Context& mine, const Tensor& tokens, std::vector<std::int64_t> lengths,
                             StackState* state) {
    Pass pass(mine);
    pass.self.causal = true;
    pass.lengths = std::move(lengths);
    return stack(tokens, pass, state);
  };
  const Tensor y = pass_with(silent, x, {}, nullptr);
  pass_with(context, x, {}, nullptr);
  const Tensor whole = weights;  // [2, 4, 6, 6]
  StackState state(stack, 2);
  pass_with(context, slice(x, 1, 0, 4), {4, 2}, &state);
  state.reorder(std::vector<std::int64_t>{1, 0});
  const Tensor more = concat({row(slice(x, 1, 2, 3), 0, 1), row(slice(x, 1, 4, 5), 0, 0)}, 0);
  const Tensor last = pass_with(context, more, {}, &state);
  expect_near(slice(row(weights, 0, 0), 3, 0, 3).contiguous(),
              slice(row(row(whole, 0, 1), 2, 2), 3, 0, 3).contiguous(), 1e-12);
  expect_near(row(weights, 0, 1).contiguous(), slice(row(row(whole, 0, 0), 2, 4), 3, 0, 5).contiguous(),
              1e-12);
  expect_near(row(last, 0, 1).contiguous(), row(row(y, 0, 0), 1, 4).contiguous(), 1e-12);
  StackState late(stack, 2);
  pass_with(silent, slice(x, 1, 0, 4), {}, &late);
  EXPECT_ERROR(pass_with(context, slice(x, 1, 4, 5), {}, &late),
               "expected a listener for weights from the first token on, got one after 4");
}

}  // namespace
}  // namespace heed
