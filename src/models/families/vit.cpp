// ViT: its config, and the model built from parts.
#include <algorithm>

#include "heed/nn/attention.h"
#include "heed/nn/convolution.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/positions.h"
#include "heed/nn/stack.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/families.h"

namespace heed {
namespace {

constexpr std::int64_t kMostPixels = 65536;  // of a side

const EncoderHeads kVitHeads{.prefix = "vit.", .sequence = {.output = "classifier"}};

// The height and the width under `key`, which may be one number for both.
Shape height_and_width(const Config& json, const char* key, std::int64_t default_value) {
  const std::vector<std::int64_t> sizes = json.integers(key);
  if (sizes.size() > 2) json.fail(key, "one number or two");
  const Shape shape{sizes.empty() ? default_value : sizes.front(),
                    sizes.empty() ? default_value : sizes.back()};
  if (std::min(shape[0], shape[1]) < 1 || std::max(shape[0], shape[1]) > kMostPixels)
    json.fail(key, "1 to " + std::to_string(kMostPixels));
  return shape;
}

struct VitConfig {
  EncoderConfig encoder;
  std::int64_t channels = 0, pooled = 0;
  Shape image, patch;
  Activation pooler_activation = Activation::tanh;
  bool bias = true;  // of queries, keys and values

  static VitConfig parse(const Config& json);
};

VitConfig VitConfig::parse(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "ViTModel" &&
      architectures.front() != "ViTForImageClassification")
    json.fail("architectures", "ViTModel or ViTForImageClassification");
  VitConfig c;
  EncoderConfig& e = c.encoder = EncoderConfig::parse_common(json);
  e.d_model = json.positive_integer("hidden_size", 768);
  e.layers = layer_count(json, "num_hidden_layers", 12);
  e.heads = json.positive_integer("num_attention_heads", 12);
  e.d_ff = json.positive_integer("intermediate_size", 3072);
  e.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  e.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  e.dropout = probability(json, "hidden_dropout_prob", 0.0);
  e.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  check_heads(json, "num_attention_heads", e.d_model, e.heads);
  c.channels = json.positive_integer("num_channels", 3);
  c.pooled = json.positive_integer("pooler_output_size", e.d_model);
  c.pooler_activation = activation_setting(json, "pooler_act", json.string("pooler_act", "tanh"));
  c.image = height_and_width(json, "image_size", 224);
  c.patch = height_and_width(json, "patch_size", 16);
  if (c.image[0] < c.patch[0] || c.image[1] < c.patch[1])
    json.fail("patch_size", "at most the sizes of image_size");
  e.positions = c.image[0] / c.patch[0] * (c.image[1] / c.patch[1]) + 1;
  e.max_positions = e.positions;
  c.bias = json.boolean("qkv_bias", true);
  json.ignore({"encoder_stride", "initializer_range"});
  return c;
}

// Pixels to tokens [B, N + 1, D]: the learned first one, then those of the patches.
class VitFrontend final : public Frontend {
 public:
  VitFrontend(const Shape& row, Tensor first_token, Tensor positions, PatchEmbedding patches, double dropout)
      : row_(row),
        first_token_(std::move(first_token)),
        positions_(std::move(positions)),
        patches_(std::move(patches)),
        dropout_(dropout) {}
  InputSpec input() const override { return {InputKind::pixels, row_}; }
  Tensor operator()(const Tensor& values, Context& context) const override;

 private:
  Shape row_;
  Tensor first_token_, positions_;  // as in the file: [1, 1, D], [1, N + 1, D]
  PatchEmbedding patches_;
  double dropout_;
};

Tensor VitFrontend::operator()(const Tensor& values, Context& context) const {
  const std::int64_t d_model = first_token_.size(2);
  const Tensor first = reshape(first_token_, {1, d_model}),
               table = reshape(positions_, {positions_.size(1), d_model});
  const Tensor firsts = embedding(first, Tensor::zeros({values.size(0), 1}, DType::i64));
  const Tensor tokens = concat({firsts, patches_(values)}, 1);
  return apply_dropout(AdditivePositions(table).embed(tokens, 0), dropout_, context);
}

std::unique_ptr<Model> build_vit(const VitConfig& c, WeightBuilder& w) {
  const EncoderConfig& e = c.encoder;
  const std::string prefix = begin_body(e, kVitHeads, w), embeddings = prefix + "embeddings.",
                    patches = embeddings + "patch_embeddings.projection";
  const auto norm = [&](const std::string& name) { return w.layer_norm(name, e.d_model, e.norm_eps); };
  const auto take = [&](const std::string& name, const Shape& shape) {
    return w.tensor({.name = name, .shape = shape, .init = Init::embedding});
  };
  const Tensor first_token = take(embeddings + "cls_token", {1, 1, e.d_model}),
               positions = take(embeddings + "position_embeddings", {1, e.positions, e.d_model});
  const PatchEmbedding patch_embedding{
      take(patches + ".weight", {e.d_model, c.channels, c.patch[0], c.patch[1]}),
      w.bias(patches + ".bias", e.d_model)};
  EncoderParts parts;
  parts.embeddings.frontend = std::make_shared<VitFrontend>(
      Shape{c.channels, c.image[0], c.image[1]}, first_token, positions, patch_embedding, e.dropout);
  for (std::int64_t i = 0; i < e.layers; ++i) {
    const std::string file = prefix + "encoder.layer." + std::to_string(i) + ".";
    const auto project = [&](const char* name) {
      return w.linear(file + "attention.attention." + name, e.d_model, e.d_model, c.bias);
    };
    const SelfAttention attention{{.q = project("query"),
                                   .k = project("key"),
                                   .v = project("value"),
                                   .out = w.linear(file + "attention.output.dense", e.d_model, e.d_model),
                                   .heads = e.heads,
                                   .kv_heads = e.heads,
                                   .dropout = e.attention_dropout}};
    const FeedForward feed_forward{w.linear(file + "intermediate.dense", e.d_ff, e.d_model),
                                   w.linear(file + "output.dense", e.d_model, e.d_ff), e.activation};
    const Norm first = norm(file + "layernorm_before"), second = norm(file + "layernorm_after");
    parts.stack.layers.push_back({{pre_norm("self_attn", first, attention, e.dropout),
                                   pre_norm("feed_forward", second, feed_forward, e.dropout)}});
  }
  parts.stack.final_norm = norm(prefix + "layernorm");
  if (const std::string pooler = "pooler.dense"; e.head == EncoderHead::none && w.has(pooler + ".weight")) {
    parts.pooler = w.linear(pooler, c.pooled, e.d_model);
    parts.pooler_activation = c.pooler_activation;
  }
  parts.head = take_head(e, kVitHeads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

Family vit_family() { return family<&VitConfig::parse, build_vit>({"vit"}); }

}  // namespace heed
