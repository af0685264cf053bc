// Rows and parts of BART's layers.
#include "models/bart_common.h"

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

constexpr double kNormEps = 1e-5;

std::string layer_file(const char* stack, std::int64_t layer) {
  return std::string("model.") + stack + ".layers." + std::to_string(layer) + ".";
}

void add_attention(TensorTable& table, const std::string& name, const BartLayers& c) {
  add_linear(table, name + ".k_proj", c.d_model, c.d_model, c.key_bias);
  for (const char* part : {"v_proj", "q_proj", "out_proj"})
    add_linear(table, name + "." + part, c.d_model, c.d_model);
  add_norm(table, name + "_layer_norm", c.d_model);
}

void add_feed_forward(TensorTable& table, const std::string& layer, std::int64_t d_model, std::int64_t d_ff) {
  add_linear(table, layer + "fc1", d_ff, d_model);
  add_linear(table, layer + "fc2", d_model, d_ff);
  add_norm(table, layer + "final_layer_norm", d_model);
}

class LayerBuilder {
 public:
  LayerBuilder(const BartLayers& config, const Weights& weights) : c_(config), weights_(weights) {}

  Layer encoder(std::int64_t i) const {
    const std::string file = layer_file("encoder", i);
    return {{step("self_attn", file + "self_attn",
                  SelfAttention{attention(file + "self_attn", c_.encoder_heads)}),
             step("feed_forward", file + "final", feed_forward(file))}};
  }
  Layer decoder(std::int64_t i) const {
    const std::string file = layer_file("decoder", i);
    return {{step("self_attn", file + "self_attn",
                  SelfAttention{attention(file + "self_attn", c_.decoder_heads)}),
             step("cross_attn", file + "encoder_attn",
                  CrossAttention{attention(file + "encoder_attn", c_.decoder_heads)}),
             step("feed_forward", file + "final", feed_forward(file))}};
  }

 private:
  ResidualStep step(const char* name, const std::string& file, Part part) const {
    Norm norm = norm_part(weights_, file + "_layer_norm", NormKind::layer, kNormEps);
    return (c_.norm_first ? pre_norm : post_norm)(name, std::move(norm), std::move(part), c_.dropout);
  }
  MultiHeadAttention attention(const std::string& file, std::int64_t heads) const {
    return {.q = linear_part(weights_, file + ".q_proj"),
            .k = linear_part(weights_, file + ".k_proj"),
            .v = linear_part(weights_, file + ".v_proj"),
            .out = linear_part(weights_, file + ".out_proj"),
            .heads = heads,
            .kv_heads = heads,
            .dropout = c_.attention_dropout};
  }
  FeedForward feed_forward(const std::string& layer) const {
    return {linear_part(weights_, layer + "fc1"), linear_part(weights_, layer + "fc2"), c_.activation,
            c_.activation_dropout};
  }

  const BartLayers& c_;
  const Weights& weights_;
};

}  // namespace

void add_bart_layers(TensorTable& table, const BartLayers& c) {
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::string layer = layer_file("encoder", i);
    add_attention(table, layer + "self_attn", c);
    add_feed_forward(table, layer, c.d_model, c.encoder_d_ff);
  }
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string layer = layer_file("decoder", i);
    add_attention(table, layer + "self_attn", c);
    add_attention(table, layer + "encoder_attn", c);
    add_feed_forward(table, layer, c.d_model, c.decoder_d_ff);
  }
}

void build_bart_layers(EncoderDecoderParts& parts, const BartLayers& c, const Weights& weights) {
  const LayerBuilder build(c, weights);
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) parts.encoder.layers.push_back(build.encoder(i));
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) parts.decoder.stack.layers.push_back(build.decoder(i));
}

}  // namespace heed
