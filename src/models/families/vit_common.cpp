// The settings and the parts of ViT and the families after it.
#include "models/families/vit_common.h"

#include <algorithm>

#include "heed/nn/attention.h"
#include "heed/nn/convolution.h"
#include "heed/nn/positions.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"

namespace heed {
namespace {

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

class VitFrontend final : public Frontend {
 public:
  struct Weights {
    std::vector<Tensor> first;  // the learned tokens before the patches, [1, 1, D] each
    Tensor registers;           // [1, R, D], or undefined
    Tensor positions;           // [1, N, D]: of the first tokens and the patches
    PatchEmbedding patches;
  };
  VitFrontend(const InputSpec& input, Weights weights, double dropout)
      : input_(input), w_(std::move(weights)), dropout_(dropout) {}
  InputSpec input() const override { return input_; }
  Tensor operator()(const Tensor& values, const Tensor& shown, Context& context) const override;

 private:
  InputSpec input_;
  Weights w_;
  double dropout_;
};

// [1, n, D] for every image of a batch: [B, n, D].
Tensor for_every_image(const Tensor& tokens, std::int64_t batch) {
  const std::int64_t count = tokens.size(1);
  Tensor ids = Tensor::zeros({batch, count}, DType::i64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.data<std::int64_t>()[i] = i % count;
  return embedding(reshape(tokens, {count, tokens.size(2)}), ids);
}

Tensor VitFrontend::operator()(const Tensor& values, const Tensor& /*shown*/, Context& context) const {
  const std::int64_t batch = values.size(0);
  std::vector<Tensor> parts;
  for (const Tensor& first : w_.first) parts.push_back(for_every_image(first, batch));
  const bool frames_first = input_.kind == InputKind::spectrogram;
  parts.push_back(w_.patches(frames_first ? unsqueeze(transpose(values, 1, 2), 1) : values));
  const Tensor table = reshape(w_.positions, {w_.positions.size(1), w_.positions.size(2)});
  Tensor tokens = AdditivePositions(table).embed(concat(parts, 1), 0);
  if (w_.registers.defined()) {
    tokens = concat(
        {slice(tokens, 1, 0, 1), for_every_image(w_.registers, batch), slice(tokens, 1, 1, tokens.size(1))},
        1);
  }
  return apply_dropout(tokens, dropout_, context);
}

std::shared_ptr<const Frontend> take_vit_frontend(const VitConfig& c, const std::string& prefix,
                                                  WeightBuilder& w) {
  const std::string embeddings = prefix + "embeddings.", patches = embeddings + "patch_embeddings.projection";
  const std::int64_t d = c.encoder.d_model;
  const auto take = [&](const std::string& name, const Shape& shape) {
    return w.tensor({.name = name, .shape = shape, .init = Init::embedding});
  };
  VitFrontend::Weights weights;
  weights.first.push_back(take(embeddings + "cls_token", {1, 1, d}));
  if (c.distillation) weights.first.push_back(take(embeddings + "distillation_token", {1, 1, d}));
  if (c.registers > 0) weights.registers = take(embeddings + "register_tokens", {1, c.registers, d});
  weights.positions = take(embeddings + "position_embeddings", {1, c.encoder.positions, d});
  weights.patches.weight = take(patches + ".weight", {d, c.channels, c.patch[0], c.patch[1]});
  weights.patches.bias = w.bias(patches + ".bias", d);
  weights.patches.stride = c.stride;
  if (c.mask_token) w.tensor({.name = embeddings + "mask_token", .shape = {1, d}, .init = Init::zeros});
  const InputSpec input =
      c.spectrogram ? InputSpec{InputKind::spectrogram, {c.image[1], c.image[0]}, "input_values"}
                    : InputSpec{InputKind::pixels, {c.channels, c.image[0], c.image[1]}, "pixel_values"};
  return std::make_shared<VitFrontend>(input, std::move(weights), c.encoder.dropout);
}

Stack take_vit_stack(const VitConfig& c, const std::string& prefix, const VitLayerNames& names,
                     WeightBuilder& w) {
  const EncoderConfig& e = c.encoder;
  const auto norm = [&](const std::string& name) { return w.layer_norm(name, e.d_model, e.norm_eps); };
  const auto scaled = [&](ResidualStep step, const std::string& name) {
    step.sublayers.front().scale = w.tensor(
        {.name = name + ".lambda1", .shape = {e.d_model}, .fill = [value = c.layer_scale](const Tensor& t) {
           t.copy_from(Tensor::full(t.shape(), value));
         }});
    return step;
  };
  Stack stack;
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
    const FeedForward feed_forward{
        .up = w.linear(file + names.up, names.gated ? 2 * e.d_ff : e.d_ff, e.d_model),
        .down = w.linear(file + names.down, e.d_model, e.d_ff),
        .activation = names.gated ? Activation::silu : e.activation,
        .fused_gate = names.gated};
    const Norm first = norm(file + names.norm), second = norm(file + names.feed_forward_norm);
    ResidualStep attend = pre_norm("self_attn", first, attention, e.dropout),
                 feed = pre_norm("feed_forward", second, feed_forward, e.dropout);
    if (!names.scale.empty()) {
      attend = scaled(std::move(attend), file + names.scale);
      feed = scaled(std::move(feed), file + names.feed_forward_scale);
    }
    stack.layers.push_back({{std::move(attend), std::move(feed)}});
  }
  stack.final_norm = norm(prefix + "layernorm");
  return stack;
}

}  // namespace

VitConfig VitConfig::parse_layers(const Config& json, double norm_eps) {
  VitConfig c;
  EncoderConfig& e = c.encoder = EncoderConfig::parse_common(json);
  e.d_model = json.positive_integer("hidden_size", 768);
  e.layers = layer_count(json, "num_hidden_layers", 12);
  e.heads = json.positive_integer("num_attention_heads", 12);
  e.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  e.norm_eps = norm_epsilon(json, "layer_norm_eps", norm_eps);
  e.dropout = probability(json, "hidden_dropout_prob", 0.0);
  e.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  check_heads(json, "num_attention_heads", e.d_model, e.heads);
  c.bias = json.boolean("qkv_bias", true);
  return c;
}

VitConfig VitConfig::parse(const Config& json, const VitDefaults& defaults) {
  VitConfig c = parse_layers(json, defaults.norm_eps);
  c.channels = json.positive_integer("num_channels", 3);
  c.image = height_and_width(json, "image_size", 224);
  c.patch = height_and_width(json, "patch_size", defaults.patch);
  if (c.image[0] < c.patch[0] || c.image[1] < c.patch[1])
    json.fail("patch_size", "at most the sizes of image_size");
  return c;
}

void VitConfig::count_tokens() {
  const auto along = [&](int side) {
    return (image[side] - patch[side]) / (stride.rank() > 0 ? stride : patch)[side] + 1;
  };
  encoder.positions = along(0) * along(1) + (distillation ? 2 : 1);
  encoder.max_positions = encoder.positions + registers;
}

EncoderParts take_vit_body(const VitConfig& c, const EncoderHeads& heads, const VitLayerNames& names,
                           WeightBuilder& w) {
  const std::string prefix = begin_body(c.encoder, heads, w);
  EncoderParts parts;
  parts.embeddings.frontend = take_vit_frontend(c, prefix, w);
  parts.stack = take_vit_stack(c, prefix, names, w);
  return parts;
}

}  // namespace heed
