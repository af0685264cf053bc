// Layers of decoder-only models: causal self-attention and feed-forward, each with a norm before it.
//
// Taps: `NAME.out` [B, T, D], the output of each layer; `STACK.embed` [B, T, D], the input of the first.
#pragma once

#include <string>
#include <vector>

#include "heed/nn/attention.h"
#include "heed/nn/block.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"

namespace heed {

/// How the residual sums are formed, with a = attention and f = feed-forward.
enum class ResidualOrder {
  sequential,  ///< y = x + a(norm(x)), then y + f(norm(y))
  parallel,    ///< x + a(norm(x)) + f(norm'(x)) (Wang and Komatsuzaki 2021, "GPT-J-6B")
  from_norm,   ///< n = norm(x), y = n + a(n), then m = norm(y), m + f(m) (Shoeybi et al. 2019, "Megatron-LM")
};

struct CausalLayer {
  std::string name;
  Norm attn_norm;
  MultiHeadAttention self_attn;
  Norm feed_forward_norm;
  FeedForward feed_forward;
  ResidualOrder order = ResidualOrder::sequential;
  double dropout = 0.0;  ///< on the results of a and f
  /// x [B, T, D] -> [B, T, D]. With a cache, the T positions follow the cached ones.
  Tensor operator()(const Tensor& x, const AttentionOptions& options, KeyValueCache* cache,
                    Context& context) const;
};

struct CausalStack {
  std::string name = "decoder";
  std::vector<CausalLayer> layers;
  Norm final_norm;
  /// `caches` is null or holds one cache per layer.
  Tensor operator()(Tensor x, const AttentionOptions& options, std::vector<KeyValueCache>* caches,
                    Context& context) const;
};

}  // namespace heed
