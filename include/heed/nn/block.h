// Transformer layers and stacks of them: attention and feed-forward, each with a residual connection and a
// norm after it (post-norm, Vaswani et al. 2017) or before it (pre-norm, Xiong et al. 2020).
//
// Taps: `NAME.out` [B, T, D], the output of each layer; `STACK.embed` [B, T, D], the input of the first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/nn/attention.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"

namespace heed {

enum class NormPlace { post, pre };

/// Two linear maps with an activation between them (section 3.3): down(f(up(x))). With a gate,
/// down(f(gate(x)) * up(x)) (Shazeer 2020, "GLU variants improve Transformer").
struct FeedForward {
  Linear up;    // [F, D]
  Linear down;  // [D, F]
  Activation activation = Activation::relu;
  double dropout = 0.0;             ///< before `down`
  std::optional<Linear> gate = {};  // [F, D]
  Tensor operator()(const Tensor& x, Context& context) const;
};

/// Wraps a sublayer f: dropout on its result, residual sum, norm.
struct Residual {
  Norm norm;
  NormPlace place = NormPlace::post;
  double dropout = 0.0;
  /// post: norm(x + dropout(f(x))); pre: x + dropout(f(norm(x))).
  template <class Sublayer>
  Tensor operator()(const Tensor& x, Context& context, Sublayer f) const {
    if (place == NormPlace::post) return norm.of_sum(apply_dropout(f(x), dropout, context), x);
    return add(x, apply_dropout(f(norm(x)), dropout, context));
  }

 private:
  static Tensor add(const Tensor& x, const Tensor& y);
};

struct EncoderLayer {
  std::string name;
  MultiHeadAttention self_attn;
  Residual self_attn_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;
  /// x [B, T, D] -> [B, T, D]; the options mask keys.
  Tensor operator()(const Tensor& x, const AttentionOptions& options, Context& context) const;
};

/// The key-value cache of a decoder layer.
struct DecoderLayerCache {
  KeyValueCache self;
  KeyValueCache cross;
};

struct DecoderLayer {
  std::string name;
  MultiHeadAttention self_attn;
  Residual self_attn_residual;
  MultiHeadAttention cross_attn;
  Residual cross_attn_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;
  /// x [B, T, D], memory (the encoder's output) [B, S, D] -> [B, T, D]. With a cache, the T positions follow
  /// the cached ones.
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionOptions& self_options,
                    const AttentionOptions& cross_options, DecoderLayerCache* cache, Context& context) const;
};

struct Encoder {
  std::string name = "encoder";
  std::vector<EncoderLayer> layers;
  std::optional<Norm> final_norm;
  Tensor operator()(Tensor x, const AttentionOptions& options, Context& context) const;
};

struct Decoder {
  std::string name = "decoder";
  std::vector<DecoderLayer> layers;
  std::optional<Norm> final_norm;
  /// `caches` is null or holds one cache per layer.
  Tensor operator()(Tensor x, const Tensor& memory, const AttentionOptions& self_options,
                    const AttentionOptions& cross_options, std::vector<DecoderLayerCache>* caches,
                    Context& context) const;
};

}  // namespace heed
