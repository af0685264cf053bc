// Rows and parts of BART's layers.
#include "models/bart_layout.h"

#include "models/rows.h"

namespace heed {
namespace {

constexpr double kNormEps = 1e-5;

std::string layer_file(const char* stack, std::int64_t layer) {
  return std::string("model.") + stack + ".layers." + std::to_string(layer) + ".";
}

void add_attention(TensorTable& table, const std::string& name, const BartLayout& layout) {
  add_linear(table, name + ".k_proj", layout.width, layout.width, layout.key_bias);
  for (const char* part : {"v_proj", "q_proj", "out_proj"})
    add_linear(table, name + "." + part, layout.width, layout.width);
  add_norm(table, name + "_layer_norm", layout.width);
}

void add_feed_forward(TensorTable& table, const std::string& layer, std::int64_t width, std::int64_t inner) {
  add_linear(table, layer + "fc1", inner, width);
  add_linear(table, layer + "fc2", width, inner);
  add_norm(table, layer + "final_layer_norm", width);
}

class LayerBuilder {
 public:
  LayerBuilder(const BartLayout& layout, const Weights& weights) : layout_(layout), weights_(weights) {}

  EncoderLayer encoder(std::int64_t i) const {
    const std::string file = layer_file("encoder", i), name = "encoder.layers." + std::to_string(i);
    return {name, attention(file + "self_attn", name + ".self_attn", layout_.encoder_heads),
            residual(file + "self_attn_layer_norm"), feed_forward(file), residual(file + "final_layer_norm")};
  }
  DecoderLayer decoder(std::int64_t i) const {
    const std::string file = layer_file("decoder", i), name = "decoder.layers." + std::to_string(i);
    return {name,
            attention(file + "self_attn", name + ".self_attn", layout_.decoder_heads),
            residual(file + "self_attn_layer_norm"),
            attention(file + "encoder_attn", name + ".cross_attn", layout_.decoder_heads),
            residual(file + "encoder_attn_layer_norm"),
            feed_forward(file),
            residual(file + "final_layer_norm")};
  }

 private:
  Residual residual(const std::string& norm) const {
    return {norm_part(weights_, norm, NormKind::layer, kNormEps), layout_.norm_place, layout_.dropout};
  }
  MultiHeadAttention attention(const std::string& file, const std::string& name, std::int64_t heads) const {
    return {.name = name,
            .q = linear_part(weights_, file + ".q_proj"),
            .k = linear_part(weights_, file + ".k_proj"),
            .v = linear_part(weights_, file + ".v_proj"),
            .out = linear_part(weights_, file + ".out_proj"),
            .heads = heads,
            .kv_heads = heads,
            .dropout = layout_.attention_dropout};
  }
  FeedForward feed_forward(const std::string& layer) const {
    return {linear_part(weights_, layer + "fc1"), linear_part(weights_, layer + "fc2"), layout_.activation,
            layout_.activation_dropout};
  }

  const BartLayout& layout_;
  const Weights& weights_;
};

}  // namespace

void add_bart_layers(TensorTable& table, const BartLayout& layout) {
  for (std::int64_t i = 0; i < layout.encoder_layers; ++i) {
    const std::string layer = layer_file("encoder", i);
    add_attention(table, layer + "self_attn", layout);
    add_feed_forward(table, layer, layout.width, layout.encoder_inner);
  }
  for (std::int64_t i = 0; i < layout.decoder_layers; ++i) {
    const std::string layer = layer_file("decoder", i);
    add_attention(table, layer + "self_attn", layout);
    add_attention(table, layer + "encoder_attn", layout);
    add_feed_forward(table, layer, layout.width, layout.decoder_inner);
  }
}

void build_bart_layers(EncoderDecoderParts& parts, const BartLayout& layout, const Weights& weights) {
  const LayerBuilder build(layout, weights);
  for (std::int64_t i = 0; i < layout.encoder_layers; ++i) parts.encoder.layers.push_back(build.encoder(i));
  for (std::int64_t i = 0; i < layout.decoder_layers; ++i) parts.decoder.layers.push_back(build.decoder(i));
  parts.embedding_dropout = layout.dropout;
}

}  // namespace heed
