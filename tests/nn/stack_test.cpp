// Stacks: every way to place norms and sublayers against its formula, gradients through whole layers,
// causality, and the state of decoding.
#include "heed/nn/stack.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "nn/random_parts.h"
#include "reference/error.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::MakeStep;
using reference::random_attention;
using reference::random_decoder_layer;
using reference::random_encoder;
using reference::random_encoder_layer;
using reference::random_feed_forward;
using reference::random_norm;
using reference::random_tensor;
using reference::run;

// Multiplies by a number: a part whose formula is plain.
struct Times {
  double factor;
  Tensor operator()(const Tensor& x, Pass&, PartState*) const { return x * factor; }
};

Stack one_layer(std::vector<ResidualStep> steps) {
  Stack stack;
  stack.layers.push_back({std::move(steps)});
  return stack;
}

Tensor decode(const Stack& stack, const Tensor& x, const Tensor& memory, bool causal) {
  Context context;
  Pass pass(context);
  pass.self.causal = causal;
  pass.memory = memory;
  return stack(x, pass);
}

TEST(Stack, PostAndPreNormAreTheirFormulas) {
  const Tensor x = random_tensor({2, 3, 6}, 1);
  const Norm first = random_norm(6, 2), second = random_norm(6, 4);
  const SelfAttention attention{random_attention(6, 2, 7)};
  const FeedForward feed_forward = random_feed_forward(6, 12, Activation::gelu, 20);
  Context context;
  Pass pass(context);
  pass.name = "part";
  const Tensor post = first(x + attention(x, pass));
  expect_near(run(one_layer({post_norm("a", first, attention), post_norm("f", second, feed_forward)}), x),
              second(post + feed_forward.down(gelu(feed_forward.up(post)))), 1e-12);
  const Tensor pre = x + attention(first(x), pass);
  expect_near(run(one_layer({pre_norm("a", first, attention), pre_norm("f", second, feed_forward)}), x),
              pre + feed_forward.down(gelu(feed_forward.up(second(pre)))), 1e-12);
}

TEST(Stack, OtherResidualStepsAreTheirFormulas) {
  const Tensor x = random_tensor({2, 3, 6}, 1);
  const Norm before = random_norm(6, 2), after = random_norm(6, 4);
  const Stack both = one_layer(
      {{{{.name = "a", .norm_before = before, .part = Times{3}, .norm_after = after, .multiplier = 0.5}}}});
  expect_near(run(both, x), x + after(before(x) * 3.0) * 0.5, 1e-12);
  const Stack parallel = one_layer({{{{.name = "a", .norm_before = before, .part = Times{3}},
                                      {.name = "b", .norm_before = after, .part = Times{5}}}}});
  expect_near(run(parallel, x), x + before(x) * 3.0 + after(x) * 5.0, 1e-12);
  const Stack from_norm = one_layer({{.sublayers = {{.name = "a", .part = Times{3}}}, .norm_input = before}});
  expect_near(run(from_norm, x), before(x) * 4.0, 1e-12);
}

// Shapes of what a weight reads.
std::vector<std::int64_t> tokens_read_by(const Weight& weight, const std::function<void()>& run) {
  std::vector<std::int64_t> tokens;
  weight.observe([&](const Tensor& x) { tokens.push_back(x.size(1)); });
  run();
  weight.observe({});
  return tokens;
}

TEST(Stack, TheLastLayerComputesTheTokensThatAreRead) {
  Stack stack = random_encoder(6, 2, pre_norm);
  stack.final_norm = random_norm(6, 77);
  const Tensor x = random_tensor({2, 5, 6}, 3);
  const auto attention = [&](std::size_t layer) {
    return stack.layers[layer].steps[0].sublayers[0].part.as<SelfAttention>()->attention;
  };
  const auto up = [&](std::size_t layer) {
    return stack.layers[layer].steps[1].sublayers[0].part.as<FeedForward>()->up.weight;
  };
  Taps taps;
  taps.listen("encoder.layers.1.out", [](const std::string&, Tensor&) {});
  for (const bool listens : {false, true}) {
    Context context{.taps = listens ? &taps : nullptr};
    const auto pass_of = [&](const std::vector<std::int64_t>& read) {
      Pass pass(context);
      pass.self.causal = true;
      pass.read = read;
      return stack(x, pass);
    };
    const NoGradients guard;
    const auto read = [&] { pass_of({4, 2}); };
    const std::vector<std::int64_t> some{listens ? 5 : 1}, all{5};
    EXPECT_EQ(tokens_read_by(up(0), read), all);
    EXPECT_EQ(tokens_read_by(attention(1).k.weight, read), all);
    EXPECT_EQ(tokens_read_by(attention(1).v.weight, read), all);
    EXPECT_EQ(tokens_read_by(attention(1).q.weight, read), some);
    EXPECT_EQ(tokens_read_by(attention(1).out.weight, read), some);
    EXPECT_EQ(tokens_read_by(up(1), read), some);
    EXPECT_EQ(pass_of({4, 2}).to_vector<double>(), tokens_at(pass_of({}), {4, 2}).to_vector<double>());
  }
}

TEST(Stack, LayersWithoutAttentionComputeTheTokensThatAreRead) {
  const FeedForward feed_forward = random_feed_forward(6, 12, Activation::gelu, 20);
  const Stack stack = one_layer({pre_norm("f", random_norm(6, 3), feed_forward)});
  const Tensor x = random_tensor({2, 5, 6}, 3);
  const NoGradients guard;
  Context context;
  Pass pass(context);
  pass.read = {4, 0};
  Tensor read;
  EXPECT_EQ(tokens_read_by(feed_forward.up.weight, [&] { read = stack(x, pass); }),
            std::vector<std::int64_t>{1});
  EXPECT_EQ(read.to_vector<double>(), tokens_at(run(stack, x), pass.read).to_vector<double>());
}

TEST(Stack, GradientsPassThroughTheTokensThatAreRead) {
  const Stack stack = random_encoder(6, 2, post_norm);
  check_gradients(
      [&](const auto& in) {
        Context context;
        Pass pass(context);
        pass.read = {1, 0};
        return stack(in[0], pass);
      },
      {random_tensor({2, 3, 6}, 5)}, 1e-5);
}

TEST(Stack, SharedLayersHaveTapsOfTheirOwn) {
  Stack stack = random_encoder(6, 1, pre_norm);
  stack.layers.push_back(stack.layers[0]);
  std::vector<std::string> heard;
  Taps taps;
  taps.listen("*", [&](const std::string& name, Tensor&) { heard.push_back(name); });
  Context context{.taps = &taps};
  Pass pass(context);
  stack(random_tensor({1, 2, 6}, 3), pass);
  std::vector<std::string> expected{"encoder.embed"};
  for (const std::string layer : {"encoder.layers.0.", "encoder.layers.1."}) {
    for (const char* tap :
         {"in", "self_attn.norm", "self_attn.q", "self_attn.k", "self_attn.v", "self_attn.transformed",
          "self_attn.scores", "self_attn.weights", "self_attn.heads", "self_attn.contributions",
          "self_attn.out", "self_attn.added", "mid", "feed_forward.norm", "feed_forward.inner",
          "feed_forward.out", "feed_forward.added", "out"})
      expected.push_back(layer + tap);
  }
  EXPECT_EQ(heard, expected);
}

TEST(Stack, GatesAndScalesAreTheirFormulas) {
  const Tensor x = random_tensor({2, 3, 6}, 11);
  Context context;
  Pass pass(context);
  FeedForward gated = random_feed_forward(6, 12, Activation::gelu, 12);
  gated.gate = Linear{random_tensor(gated.up.weight.shape(), 13), {}};
  expect_near(gated(x, pass), gated.down(gelu((*gated.gate)(x)) * gated.up(x)), 1e-12);
  const Stack stack = one_layer({pre_norm("f", random_norm(6, 3), gated)});
  check_gradients([&](const auto& in) { return run(stack, in[0]); }, {x}, 1e-5);
  SelfAttention scaled{random_attention(6, 2, 14)}, plain = scaled;
  scaled.attention.scale = 1.0;
  const double factor = std::sqrt(3.0);  // what 1/sqrt(d) takes away
  plain.attention.q = {plain.attention.q.weight.tensor() * factor, plain.attention.q.bias * factor};
  expect_near(scaled(x, pass), plain(x, pass), 1e-12);
}

TEST(Stack, GradientsThroughEncoderAndDecoderLayers) {
  for (const MakeStep step : {MakeStep(post_norm), MakeStep(pre_norm)}) {
    Stack encoder, decoder;
    encoder.layers.push_back(random_encoder_layer(4, step, 8));
    check_gradients([&](const auto& in) { return run(encoder, in[0]); }, {random_tensor({1, 3, 4}, 2)}, 1e-5);
    decoder.layers.push_back(random_decoder_layer(4, step, 9));
    check_gradients([&](const auto& in) { return decode(decoder, in[0], in[1], true); },
                    {random_tensor({1, 3, 4}, 3), random_tensor({1, 5, 4}, 4)}, 1e-5);
  }
}

TEST(Stack, DecoderOutputsIgnoreLaterTokens) {
  Stack decoder;
  decoder.layers.push_back(random_decoder_layer(6, post_norm, 10));
  const Tensor x = random_tensor({1, 6, 6}, 5), memory = random_tensor({1, 4, 6}, 6);
  const Tensor changed = x.clone();
  slice(changed, 1, 4, 6).copy_from(random_tensor({1, 2, 6}, 7));
  const auto first_four = [&](const Tensor& input, bool causal) {
    return slice(decode(decoder, input, memory, causal), 1, 0, 4).template to_vector<double>();
  };
  EXPECT_EQ(first_four(x, true), first_four(changed, true));
  EXPECT_NE(first_four(x, false), first_four(changed, false));  // the trap: no causal mask
}

TEST(Stack, PaddingDoesNotReachOtherPositions) {
  const Stack encoder = random_encoder(6, 1, post_norm);
  const Tensor x = random_tensor({1, 5, 6}, 8);
  Tensor mask = Tensor::full({1, 5}, 1, DType::boolean);
  mask.data<bool>()[3] = mask.data<bool>()[4] = false;
  AttentionOptions options;
  options.key_mask = mask;
  const Tensor padded = run(encoder, x, options), alone = run(encoder, slice(x, 1, 0, 3));
  expect_near(slice(padded, 1, 0, 3).contiguous(), alone, 1e-12);
}

TEST(Stack, FinalNormsApplyOnce) {
  Stack encoder = random_encoder(6, 2, pre_norm);
  const Tensor x = random_tensor({1, 3, 6}, 9);
  const Tensor bare = run(encoder, x);
  encoder.final_norm = Norm{NormKind::rms, random_tensor({6}, 10), {}, 1e-6};
  expect_near(run(encoder, x), (*encoder.final_norm)(bare), 1e-12);
}

// A part that remembers something other than keys and values: the sum of the tokens so far.
struct RunningSum {
  struct State final : PartState {
    Tensor sum;  // [R, 1, D]
    void reorder(const RowReorder& rows) override {
      sum = gather(sum, 0, Tensor::from(rows.from, {static_cast<std::int64_t>(rows.from.size())}));
    }
    void truncate(std::int64_t) override { throw Error("sum: cannot be taken apart"); }
    std::size_t bytes() const override { return static_cast<std::size_t>(sum.numel()) * sizeof(double); }
  };
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state) const {
    Tensor sum = Tensor::zeros({x.size(0), 1, x.size(2)}, DType::f64);
    auto* past = static_cast<State*>(state);
    if (past != nullptr && past->sum.defined()) sum = past->sum;
    std::vector<Tensor> rows;
    for (std::int64_t row = 0; row < x.size(0); ++row) {
      Tensor total = slice(sum, 0, row, row + 1), kept = total;
      std::vector<Tensor> outputs;
      for (std::int64_t t = 0; t < x.size(1); ++t) {
        total = total + slice(slice(x, 0, row, row + 1), 1, t, t + 1);
        outputs.push_back(total);
        if (pass.lengths.empty() || t < pass.lengths[static_cast<std::size_t>(row)]) kept = total;
      }
      rows.push_back(concat(outputs, 1));
      slice(sum, 0, row, row + 1).copy_from(kept);
    }
    if (past != nullptr) past->sum = sum;
    return concat(rows, 0);
  }
  std::unique_ptr<PartState> make_state(const Tensor&) const { return std::make_unique<State>(); }
};

// Decoding with a state, in passes of rows of different lengths and with rows reordered, against whole
// passes.
TEST(StackState, RowsOfDifferentLengthsThatAreReorderedEqualWholePasses) {
  const NoGradients guard;
  Stack stack;
  stack.name = "decoder";
  stack.layers.push_back(random_decoder_layer(6, pre_norm, 21));
  stack.layers.push_back({{pre_norm("sum", random_norm(6, 5), RunningSum{})}});
  const Tensor memory = random_tensor({2, 4, 6}, 22);
  Context context;
  StackState state(stack, 2, memory);
  std::vector<Tensor> told(2);  // what each row has been given, [1, T, 6]
  std::vector<std::int64_t> source{0, 1};
  std::uint64_t seed = 100;
  const auto pass_with = [&](std::int64_t time, std::vector<std::int64_t> lengths) {
    const auto rows = static_cast<std::int64_t>(told.size());
    const Tensor x = random_tensor({rows, time, 6}, seed++);
    Pass pass(context);
    pass.self.causal = true;
    pass.lengths = lengths;
    const Tensor y = stack(x, pass, &state);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const std::int64_t count = lengths.empty() ? time : lengths[r];
      const Tensor more = slice(slice(x, 0, row, row + 1), 1, 0, count);
      told[r] = told[r].defined() ? concat({told[r], more}, 1) : more.contiguous();
      const Tensor whole = decode(stack, told[r], slice(memory, 0, source[r], source[r] + 1), true);
      const std::int64_t length = whole.size(1);
      expect_near(slice(slice(y, 0, row, row + 1), 1, 0, count).contiguous(),
                  slice(whole, 1, length - count, length).contiguous(), 1e-12);
      EXPECT_EQ(state.lengths().of(row), length);
    }
  };
  const auto reorder = [&](std::vector<std::int64_t> rows) {
    state.reorder(rows);
    std::vector<Tensor> tokens;
    std::vector<std::int64_t> sources;
    for (const std::int64_t row : rows) {
      tokens.push_back(told[static_cast<std::size_t>(row)]);
      sources.push_back(source[static_cast<std::size_t>(row)]);
    }
    told = tokens;
    source = sources;
    EXPECT_EQ(state.sources(), source);
  };
  pass_with(3, {3, 1});
  reorder({0, 0, 1, 1});  // more rows
  pass_with(1, {});
  reorder({1, 0, 3, 3});  // among the rows of a source
  pass_with(2, {1, 2, 2, 1});
  const std::size_t bytes = state.bytes();
  reorder({2, 0});  // across sources, fewer rows
  pass_with(1, {});
  EXPECT_LT(state.bytes(), bytes);
  EXPECT_ERROR(state.reorder(std::vector<std::int64_t>{0, 2}), "expected rows below 2, got 2");
}

TEST(StackState, ForgetsTheLastTokensAndKeepsTheMemory) {
  const NoGradients guard;
  Stack stack;
  stack.layers.push_back(random_decoder_layer(6, pre_norm, 21));
  const Tensor memory = random_tensor({2, 4, 6}, 22);
  Context context;
  StackState state(stack, 2, memory);
  const auto feed = [&](const Tensor& x) {
    Pass pass(context);
    pass.self.causal = true;
    return stack(x, pass, &state);
  };
  const Tensor first = random_tensor({2, 3, 6}, 1), second = random_tensor({2, 2, 6}, 2);
  feed(first);
  const Tensor wanted = feed(second);
  feed(random_tensor({2, 20, 6}, 3));
  state.truncate(3);
  EXPECT_EQ(state.lengths().longest, 3);
  expect_near(feed(second), wanted, 1e-12);
  state.reorder(std::vector<std::int64_t>{1, 1, 0});
  state.truncate(4);
  state.reorder(std::vector<std::int64_t>{2, 0});
  state.truncate(3);
  expect_near(feed(second), wanted, 1e-12);
  EXPECT_ERROR(state.truncate(6), "expected to keep at most 5 tokens, got 6");
  stack.layers.push_back({{pre_norm("sum", random_norm(6, 5), RunningSum{})}});
  state = StackState(stack, 2, memory);
  feed(first);
  state.truncate(3);  // nothing to forget
  EXPECT_ERROR(state.truncate(2), "sum: cannot be taken apart");
}

}  // namespace
}  // namespace heed
