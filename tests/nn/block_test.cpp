// Blocks: pre- and post-norm against their formulas, gradients through whole layers, and causality of a
// decoder.
#include "heed/nn/block.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "nn/random_parts.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_decoder_layer;
using reference::random_encoder_layer;
using reference::random_tensor;

TEST(Block, PostAndPreNormAreTheirFormulas) {
  const Tensor x = random_tensor({2, 3, 6}, 1);
  Context context;
  for (const NormPlace place : {NormPlace::post, NormPlace::pre}) {
    const EncoderLayer layer = random_encoder_layer("encoder.layers.0", 6, place, 7);
    const Norm &first = layer.self_attn_residual.norm, &second = layer.feed_forward_residual.norm;
    auto attention = [&](const Tensor& t) { return layer.self_attn(t, {}, nullptr, context); };
    auto feed_forward = [&](const Tensor& t) {
      return layer.feed_forward.down(gelu(layer.feed_forward.up(t)));
    };
    Tensor want;
    if (place == NormPlace::post) {
      const Tensor y = first(x + attention(x));
      want = second(y + feed_forward(y));
    } else {
      const Tensor y = x + attention(first(x));
      want = y + feed_forward(second(y));
    }
    expect_near(layer(x, {}, context), want, 1e-12);
  }
}

TEST(Block, GatesAndScalesAreTheirFormulas) {
  const Tensor x = random_tensor({2, 3, 6}, 11);
  Context context;
  EncoderLayer layer = random_encoder_layer("encoder.layers.0", 6, NormPlace::pre, 12);
  FeedForward& gated = layer.feed_forward;
  gated.gate = Linear{random_tensor(gated.up.weight.shape(), 13), {}};
  expect_near(gated(x, context), gated.down(gelu((*gated.gate)(x)) * gated.up(x)), 1e-12);
  check_gradients([&](const auto& in) { return layer(in[0], {}, context); }, {x}, 1e-5);
  MultiHeadAttention &scaled = layer.self_attn, plain = layer.self_attn;
  scaled.scale = 1.0;
  const double factor = std::sqrt(6.0 / static_cast<double>(plain.heads));  // what 1/sqrt(d) takes away
  plain.q = {plain.q.weight * factor, plain.q.bias.defined() ? plain.q.bias * factor : Tensor()};
  expect_near(scaled(x, {}, nullptr, context), plain(x, {}, nullptr, context), 1e-12);
}

TEST(Block, GradientsThroughEncoderAndDecoderLayers) {
  Context context;
  AttentionOptions causal;
  causal.causal = true;
  for (const NormPlace place : {NormPlace::post, NormPlace::pre}) {
    const EncoderLayer encoder = random_encoder_layer("encoder.layers.0", 4, place, 8);
    check_gradients([&](const auto& in) { return encoder(in[0], {}, context); },
                    {random_tensor({1, 3, 4}, 2)}, 1e-5);
    const DecoderLayer decoder = random_decoder_layer("decoder.layers.0", 4, place, 9);
    check_gradients([&](const auto& in) { return decoder(in[0], in[1], causal, {}, nullptr, context); },
                    {random_tensor({1, 3, 4}, 3), random_tensor({1, 5, 4}, 4)}, 1e-5);
  }
}

TEST(Block, DecoderOutputsIgnoreLaterTokens) {
  const DecoderLayer decoder = random_decoder_layer("decoder.layers.0", 6, NormPlace::post, 10);
  const Tensor x = random_tensor({1, 6, 6}, 5), memory = random_tensor({1, 4, 6}, 6);
  const Tensor changed = x.clone();
  slice(changed, 1, 4, 6).copy_from(random_tensor({1, 2, 6}, 7));
  Context context;
  AttentionOptions causal;
  causal.causal = true;
  const Tensor before = decoder(x, memory, causal, {}, nullptr, context);
  const Tensor after = decoder(changed, memory, causal, {}, nullptr, context);
  EXPECT_EQ(slice(before, 1, 0, 4).to_vector<double>(), slice(after, 1, 0, 4).to_vector<double>());
  const Tensor leaking = decoder(changed, memory, {}, {}, nullptr, context);  // the trap: no causal mask
  EXPECT_NE(slice(decoder(x, memory, {}, {}, nullptr, context), 1, 0, 4).to_vector<double>(),
            slice(leaking, 1, 0, 4).to_vector<double>());
}

TEST(Block, PaddingDoesNotReachOtherPlaces) {
  const EncoderLayer encoder = random_encoder_layer("encoder.layers.0", 6, NormPlace::post, 11);
  const Tensor x = random_tensor({1, 5, 6}, 8);
  Tensor mask = Tensor::full({1, 5}, 1, DType::boolean);
  mask.data<bool>()[3] = mask.data<bool>()[4] = false;
  AttentionOptions options;
  options.key_mask = mask;
  Context context;
  const Tensor padded = encoder(x, options, context), alone = encoder(slice(x, 1, 0, 3), {}, context);
  expect_near(slice(padded, 1, 0, 3).contiguous(), alone, 1e-12);
}

TEST(Block, FinalNormsApplyOnce) {
  Encoder encoder = reference::random_encoder(6, 2, NormPlace::pre);
  const Tensor x = random_tensor({1, 3, 6}, 9);
  Context context;
  const Tensor bare = encoder(x, {}, context);
  encoder.final_norm = Norm{NormKind::rms, random_tensor({6}, 10), {}, 1e-6};
  expect_near(encoder(x, {}, context), (*encoder.final_norm)(bare), 1e-12);
}

}  // namespace
}  // namespace heed
