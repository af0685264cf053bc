// ViT: its config, and the model built from parts.

#include <algorithm>

#include "heed/nn/attention.h"
#include "heed/nn/convolution.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/positions.h"
#include "heed/nn/stack.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"
#include "models/assembled.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/labels.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

constexpr std::int64_t kMostPixels = 65536;  // of a side

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
  bool classifies = false;
  std::vector<std::string> labels;
  std::optional<LabelProblem> problem;
  std::int64_t d_model = 0, layers = 0, heads = 0, d_ff = 0, channels = 0, pooled = 0;
  Shape image, patch;
  Activation activation = Activation::gelu, pooler_activation = Activation::tanh;
  double norm_eps = 1e-12, dropout = 0.0, attention_dropout = 0.0;
  bool bias = true;  // of queries, keys and values

  static VitConfig parse(const Config& json);
  std::int64_t tokens() const { return image[0] / patch[0] * (image[1] / patch[1]) + 1; }
};

VitConfig VitConfig::parse(const Config& json) {
  VitConfig c;
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? "ViTModel" : architectures.front();
  c.classifies = architecture == "ViTForImageClassification";
  if (!c.classifies && architecture != "ViTModel")
    json.fail("architectures", "ViTModel or ViTForImageClassification");
  c.labels = label_names(json);
  c.problem = label_problem(json);
  c.d_model = json.positive_integer("hidden_size", 768);
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.heads = json.positive_integer("num_attention_heads", 12);
  c.d_ff = json.positive_integer("intermediate_size", 3072);
  c.channels = json.positive_integer("num_channels", 3);
  c.pooled = json.positive_integer("pooler_output_size", c.d_model);
  c.image = height_and_width(json, "image_size", 224);
  c.patch = height_and_width(json, "patch_size", 16);
  if (c.image[0] < c.patch[0] || c.image[1] < c.patch[1])
    json.fail("patch_size", "at most the sizes of image_size");
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.pooler_activation = activation_setting(json, "pooler_act", json.string("pooler_act", "tanh"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.0);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  c.bias = json.boolean("qkv_bias", true);
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  json.ignore({"encoder_stride", "initializer_range"});
  return c;
}

struct VitParts {
  Tensor first_token, positions;  // as in the file: [1, 1, D], [1, N + 1, D]
  PatchEmbedding patches;
  Stack stack = {};
  std::optional<Linear> pooler = {}, classifier = {};
};

class Vit final : public Assembled<Model> {
 public:
  Vit(VitConfig config, ModelFiles files, VitParts parts)
      : Assembled(std::move(files)), config_(std::move(config)), parts_(std::move(parts)) {}

  std::optional<std::int64_t> max_positions() const override { return config_.tokens(); }
  std::int64_t vocab_size() const override { return 0; }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;

 private:
  Tensor embed(const Tensor& pixels, Context& context) const;

  VitConfig config_;
  VitParts parts_;
};

// Pixels [B, C, H, W] to tokens [B, N + 1, D]: the learned first one, then those of the patches.
Tensor Vit::embed(const Tensor& pixels, Context& context) const {
  const Tensor first = reshape(parts_.first_token, {1, config_.d_model}),
               table = reshape(parts_.positions, {config_.tokens(), config_.d_model});
  const Tensor firsts = embedding(first, Tensor::zeros({pixels.size(0), 1}, DType::i64));
  const Tensor tokens = concat({firsts, parts_.patches(pixels)}, 1);
  return apply_dropout(AdditivePositions(table).embed(tokens, 0), config_.dropout, context);
}

TensorMap Vit::forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const {
  refuse_unknown_inputs(inputs, {"pixel_values", "labels"});
  const Tensor pixels =
      floats_input(inputs, "pixel_values", {config_.channels, config_.image[0], config_.image[1]});
  Collector collector(context, options);
  collector.listen(parts_.stack, "");
  Pass pass(collector.context);
  const Tensor hidden = parts_.stack(embed(pixels, collector.context), pass);
  const Tensor first = reshape(slice(hidden, 1, 0, 1), {hidden.size(0), config_.d_model});
  TensorMap& outputs = collector.outputs;
  if (!config_.classifies) {
    if (inputs.contains("labels"))
      throw Error("forward: labels: expected none, as a ViTModel has no head, got some");
    outputs["last_hidden_state"] = hidden;
    if (parts_.pooler) outputs["pooler_output"] = (*parts_.pooler)(first, config_.pooler_activation);
    return outputs;
  }
  Tensor& logits = outputs["logits"] = (*parts_.classifier)(first);
  tap_logits(collector.context, logits);
  if (inputs.contains("labels"))
    outputs["loss"] = sequence_loss(outputs["logits"], inputs.at("labels"), config_.problem, {});
  return outputs;
}

std::unique_ptr<Model> build_vit(const VitConfig& c, WeightBuilder& w) {
  // A bare model's tensors have no prefix, those under a head have one.
  const std::string body = "vit.", prefix = c.classifies ? body : "", embeddings = prefix + "embeddings.",
                    patches = embeddings + "patch_embeddings.projection";
  if (c.classifies) w.set_prefix(body);
  if (!c.classifies) w.set_body_prefix(body);
  const auto norm = [&](const std::string& name) { return w.layer_norm(name, c.d_model, c.norm_eps); };
  const auto take = [&](const std::string& name, const Shape& shape) {
    return w.take({.name = name, .shape = shape, .init = Init::embedding});
  };
  VitParts parts{.first_token = take(embeddings + "cls_token", {1, 1, c.d_model}).tensor(),
                 .positions = take(embeddings + "position_embeddings", {1, c.tokens(), c.d_model}).tensor(),
                 .patches = {take(patches + ".weight", {c.d_model, c.channels, c.patch[0], c.patch[1]}),
                             w.bias(patches + ".bias", c.d_model)}};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = prefix + "encoder.layer." + std::to_string(i) + ".";
    const auto project = [&](const char* name) {
      return w.linear(file + "attention.attention." + name, c.d_model, c.d_model, c.bias);
    };
    const SelfAttention attention{{.q = project("query"),
                                   .k = project("key"),
                                   .v = project("value"),
                                   .out = w.linear(file + "attention.output.dense", c.d_model, c.d_model),
                                   .heads = c.heads,
                                   .kv_heads = c.heads,
                                   .dropout = c.attention_dropout}};
    const FeedForward feed_forward{w.linear(file + "intermediate.dense", c.d_ff, c.d_model),
                                   w.linear(file + "output.dense", c.d_model, c.d_ff), c.activation};
    const Norm first = norm(file + "layernorm_before"), second = norm(file + "layernorm_after");
    parts.stack.layers.push_back({{pre_norm("self_attn", first, attention, c.dropout),
                                   pre_norm("feed_forward", second, feed_forward, c.dropout)}});
  }
  parts.stack.final_norm = norm(prefix + "layernorm");
  const std::string classifier = "classifier", pooler = "pooler.dense";
  if (c.classifies) {
    parts.classifier = w.linear(classifier, static_cast<std::int64_t>(c.labels.size()), c.d_model);
  } else {
    if (w.has(pooler + ".weight")) parts.pooler = w.linear(pooler, c.pooled, c.d_model);
    w.ignore(classifier + ".weight");
    w.ignore(classifier + ".bias");
  }
  return std::make_unique<Vit>(c, w.finish(), std::move(parts));
}

}  // namespace

Family vit_family() { return family<&VitConfig::parse, build_vit>({"vit"}); }

}  // namespace heed
