// Parts with random f64 weights, for tests.
#pragma once

#include "heed/nn/block.h"
#include "reference/gradient_check.h"

namespace heed::reference {

inline Linear random_linear(std::int64_t out, std::int64_t in, std::uint64_t seed) {
  return {random_tensor({out, in}, seed, -0.7, 0.7), random_tensor({out}, seed + 1, -0.5, 0.5)};
}

inline MultiHeadAttention random_attention(const std::string& name, std::int64_t d, std::int64_t heads,
                                           std::uint64_t seed) {
  return {name,
          random_linear(d, d, seed),
          random_linear(d, d, seed + 2),
          random_linear(d, d, seed + 4),
          random_linear(d, d, seed + 6),
          heads,
          heads};
}

inline Residual random_residual(std::int64_t d, NormPlace place, std::uint64_t seed) {
  return {
      {NormKind::layer, random_tensor({d}, seed, 0.5, 1.5), random_tensor({d}, seed + 1, -0.5, 0.5), 1e-5},
      place};
}

inline FeedForward random_feed_forward(std::int64_t d, std::int64_t inner, Activation activation,
                                       std::uint64_t seed) {
  return {random_linear(inner, d, seed), random_linear(d, inner, seed + 2), activation};
}

inline EncoderLayer random_encoder_layer(const std::string& name, std::int64_t d, NormPlace place,
                                         std::uint64_t seed) {
  return {name, random_attention(name + ".self_attn", d, 2, seed), random_residual(d, place, seed + 10),
          random_feed_forward(d, 2 * d, Activation::gelu, seed + 20), random_residual(d, place, seed + 30)};
}

inline DecoderLayer random_decoder_layer(const std::string& name, std::int64_t d, NormPlace place,
                                         std::uint64_t seed) {
  return {name,
          random_attention(name + ".self_attn", d, 2, seed),
          random_residual(d, place, seed + 10),
          random_attention(name + ".cross_attn", d, 2, seed + 40),
          random_residual(d, place, seed + 50),
          random_feed_forward(d, 2 * d, Activation::relu, seed + 20),
          random_residual(d, place, seed + 30)};
}

inline Encoder random_encoder(std::int64_t d, std::int64_t layers, NormPlace place) {
  Encoder encoder;
  for (std::int64_t i = 0; i < layers; ++i) {
    encoder.layers.push_back(random_encoder_layer("encoder.layers." + std::to_string(i), d, place,
                                                  1000 + 100 * static_cast<std::uint64_t>(i)));
  }
  return encoder;
}

}  // namespace heed::reference
