// Parts with random f64 weights, for tests.
#pragma once

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/stack.h"
#include "reference/gradient_check.h"

namespace heed::reference {

inline Linear random_linear(std::int64_t out, std::int64_t in, std::uint64_t seed) {
  return {random_tensor({out, in}, seed, -0.7, 0.7), random_tensor({out}, seed + 1, -0.5, 0.5)};
}

inline Norm random_norm(std::int64_t d, std::uint64_t seed) {
  return {NormKind::layer, random_tensor({d}, seed, 0.5, 1.5), random_tensor({d}, seed + 1, -0.5, 0.5), 1e-5};
}

inline MultiHeadAttention random_attention(std::int64_t d, std::int64_t heads, std::uint64_t seed) {
  return {random_linear(d, d, seed),
          random_linear(d, d, seed + 2),
          random_linear(d, d, seed + 4),
          random_linear(d, d, seed + 6),
          heads,
          heads};
}

inline FeedForward random_feed_forward(std::int64_t d, std::int64_t d_ff, Activation activation,
                                       std::uint64_t seed) {
  return {random_linear(d_ff, d, seed), random_linear(d, d_ff, seed + 2), activation};
}

/// `step` is pre_norm or post_norm.
using MakeStep = ResidualStep (*)(std::string, Norm, Part, double);

inline Layer random_encoder_layer(std::int64_t d, MakeStep step, std::uint64_t seed) {
  return {{step("self_attn", random_norm(d, seed + 10), SelfAttention{random_attention(d, 2, seed)}, 0.0),
           step("feed_forward", random_norm(d, seed + 30),
                random_feed_forward(d, 2 * d, Activation::gelu, seed + 20), 0.0)}};
}

inline Layer random_decoder_layer(std::int64_t d, MakeStep step, std::uint64_t seed) {
  return {
      {step("self_attn", random_norm(d, seed + 10), SelfAttention{random_attention(d, 2, seed)}, 0.0),
       step("cross_attn", random_norm(d, seed + 50), CrossAttention{random_attention(d, 2, seed + 40)}, 0.0),
       step("feed_forward", random_norm(d, seed + 30),
            random_feed_forward(d, 2 * d, Activation::relu, seed + 20), 0.0)}};
}

inline Stack random_encoder(std::int64_t d, std::int64_t layers, MakeStep step) {
  Stack stack;
  for (std::int64_t i = 0; i < layers; ++i)
    stack.layers.push_back(random_encoder_layer(d, step, 1000 + 100 * static_cast<std::uint64_t>(i)));
  return stack;
}

/// The stack's output in a pass of its own.
inline Tensor run(const Stack& stack, const Tensor& x, const AttentionOptions& options = {}) {
  Context context;
  Pass pass(context);
  pass.self = options;
  return stack(x, pass);
}

}  // namespace heed::reference
