// The settings and the parts of ViT and the families after it.
#include "models/families/vit_common.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "heed/nn/attention.h"
#include "heed/nn/linear.h"
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
    std::vector<Tensor> first;  // the learned tokens with a position, of D numbers each
    Tensor registers;           // [1, R, D], or undefined
    Tensor positions;           // of N D numbers: of the first tokens and the patches; undefined if rotary
    PatchEmbedding patches;
    std::optional<Norm> norm;
  };
  VitFrontend(const VitConfig& config, Weights weights) : c_(config), w_(std::move(weights)) {}
  InputSpec input() const override {
    if (c_.spectrogram) {
      return {InputKind::spectrogram,
              {c_.image[1], c_.image[0]},
              "input_values",
              {},
              c_.patch,
              c_.first_tokens(),
              c_.stride};
    }
    const Shape usual{c_.channels, c_.image[0], c_.image[1]};
    const Shape row = c_.any_size() ? Shape{c_.channels, -1, -1} : usual;
    return {InputKind::pixels, row, "pixel_values", usual, c_.patch, c_.first_tokens() + c_.registers};
  }
  Tensor operator()(const ModelInput& given, const Tensor& shown, Context& context) const override;
  void prepare(const Tensor& values, Pass& pass) const override;

 private:
  Shape grid_of(const Tensor& values) const;
  Tensor positions_of(const Shape& grid) const;
  VitConfig c_;
  Weights w_;
};

// [rows, columns] of the patches of images [B, C, H, W].
Shape VitFrontend::grid_of(const Tensor& values) const {
  const Shape size{values.size(2), values.size(3)};
  if (size == c_.image) return c_.grid();
  const Shape grid{size[0] / c_.patch[0], size[1] / c_.patch[1]};
  const bool whole = size[0] % c_.patch[0] == 0 && size[1] % c_.patch[1] == 0;
  if (!whole || std::max(grid[0], grid[1]) > kMostPositions || grid.numel() > kMostPositions) {
    throw Error("pixel_values: expected rows of [" + std::to_string(c_.channels) +
                ", height, width] with multiples of " + std::to_string(c_.patch[0]) + " and " +
                std::to_string(c_.patch[1]) + " and at most " + std::to_string(kMostPositions) +
                " patches, got " + values.str());
  }
  return grid;
}

// The table [N, D] for the first tokens and a grid of patches.
Tensor VitFrontend::positions_of(const Shape& grid) const {
  const std::int64_t d = c_.encoder.d_model, first = c_.first_tokens();
  const Tensor table = reshape(w_.positions, {w_.positions.numel() / d, d});
  if (c_.resize == GridResize::none) return table;
  const std::int64_t patches = table.size(0) - first, side = side_of(patches);
  if (grid == Shape{side, side}) return table;
  const Tensor resized =
      resize_positions(slice(table, 0, first, table.size(0)), {side, side}, grid, c_.resize);
  if (first == 0) return resized;
  const Tensor kept = slice(table, 0, 0, first);
  return concat({kept.dtype() == resized.dtype() ? kept : kept.to(resized.dtype()), resized}, 0);
}

// DINOv3 (Simeoni et al. 2025): patches are rotated by 2 pi times the coordinates of their centers, from -1
// to 1, times base^(-4i / d); first the rows', then the columns', in float, as transformers computes them.
// The tokens before them are not.
void VitFrontend::prepare(const Tensor& values, Pass& pass) const {
  if (c_.rotary_base <= 0) return;
  const Shape grid = grid_of(values);
  const std::int64_t d = c_.encoder.d_model / c_.encoder.heads, quarter = d / 4;
  const std::int64_t first = c_.first_tokens() + c_.registers;
  pass.rotation = Tensor::zeros({first + grid.numel(), d});
  float* to = pass.rotation.data<float>();
  for (std::int64_t t = 0; t < first; ++t, to += d) std::fill_n(to, d / 2, 1.0f);
  for (std::int64_t t = 0; t < grid.numel(); ++t, to += d) {
    const std::int64_t at[] = {t / grid[1], t % grid[1]};
    for (int axis = 0; axis < 2; ++axis) {
      const float center = (static_cast<float>(at[axis]) + 0.5f) / static_cast<float>(grid[axis]);
      const float turn = static_cast<float>(2 * std::numbers::pi) * (2.0f * center - 1.0f);
      for (std::int64_t i = 0; i < quarter; ++i) {
        const float exponent = 4.0f * static_cast<float>(i) / static_cast<float>(d);
        const float angle = turn * (1.0f / std::pow(static_cast<float>(c_.rotary_base), exponent));
        to[axis * quarter + i] = std::cos(angle);
        to[d / 2 + axis * quarter + i] = std::sin(angle);
      }
    }
  }
}

// [1, n, D] for every image of a batch: [B, n, D].
Tensor for_every_image(const Tensor& tokens, std::int64_t batch) {
  const std::int64_t count = tokens.size(1);
  Tensor ids = Tensor::zeros({batch, count}, DType::i64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.data<std::int64_t>()[i] = i % count;
  return embedding(reshape(tokens, {count, tokens.size(2)}), ids);
}

Tensor VitFrontend::operator()(const ModelInput& given, const Tensor& /*shown*/, Context& context) const {
  const Tensor& values = given.values;
  const std::int64_t batch = values.size(0), first = c_.first_tokens();
  const Tensor images = c_.spectrogram ? unsqueeze(transpose(values, 1, 2), 1) : values;  // [B, C, H, W]
  const Shape grid = grid_of(images);
  std::vector<Tensor> parts;
  for (const Tensor& token : w_.first)
    parts.push_back(for_every_image(reshape(token, {1, 1, c_.encoder.d_model}), batch));
  parts.push_back(w_.patches(images));
  Tensor tokens = parts.size() == 1 ? parts.front() : concat(parts, 1);
  if (w_.positions.defined()) tokens = AdditivePositions(positions_of(grid)).embed(tokens, 0);
  if (w_.registers.defined()) {
    tokens = concat({slice(tokens, 1, 0, first), for_every_image(w_.registers, batch),
                     slice(tokens, 1, first, tokens.size(1))},
                    1);
  }
  tokens = apply_dropout(tokens, c_.encoder.dropout, context);
  return w_.norm ? (*w_.norm)(tokens) : tokens;
}

std::shared_ptr<const Frontend> take_vit_frontend(const VitConfig& c, const std::string& prefix,
                                                  const VitNames& names, WeightBuilder& w) {
  const std::string embeddings = prefix + "embeddings.";
  const std::int64_t d = c.encoder.d_model;
  const auto take = [&](const std::string& name, const Shape& shape) {
    return w.tensor({.name = name, .shape = shape, .init = Init::embedding});
  };
  VitFrontend::Weights weights;
  if (c.class_token)
    weights.first.push_back(take(prefix + names.class_token, names.flat ? Shape{d} : Shape{1, 1, d}));
  if (c.distillation) weights.first.push_back(take(embeddings + "distillation_token", {1, 1, d}));
  if (c.registers > 0) {
    weights.registers = take(embeddings + "register_tokens", {1, c.registers, d});
  } else {
    w.ignore(embeddings + "register_tokens");  // an empty tensor
  }
  if (const std::int64_t rows = c.encoder.positions; c.rotary_base <= 0)
    weights.positions = take(prefix + names.positions, names.flat ? Shape{rows, d} : Shape{1, rows, d});
  weights.patches.weight = take(prefix + names.patches + ".weight", {d, c.channels, c.patch[0], c.patch[1]});
  weights.patches.stride = c.stride;
  if (c.bias.patches) weights.patches.bias = w.bias(prefix + names.patches + ".bias", d);
  if (c.mask_token) {
    Shape shape = names.mask_token;
    shape.push_back(d);
    w.tensor({.name = embeddings + "mask_token", .shape = shape, .init = Init::zeros});
  }
  if (!names.embeddings_norm.empty())
    weights.norm = w.layer_norm(prefix + names.embeddings_norm, d, c.encoder.norm_eps);
  return std::make_shared<VitFrontend>(c, std::move(weights));
}

}  // namespace

Stack take_vit_stack(const VitConfig& c, const std::string& prefix, const VitNames& names, WeightBuilder& w) {
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
    const std::string file = prefix + names.layers + std::to_string(i) + ".";
    const auto project = [&](const std::string& name, bool bias) {
      return w.linear(file + name, e.d_model, e.d_model, bias);
    };
    const SelfAttention attention{{.q = project(names.query, c.bias.query),
                                   .k = project(names.key, c.bias.key),
                                   .v = project(names.value, c.bias.value),
                                   .out = project(names.attention_out, c.bias.attention_out),
                                   .heads = e.heads,
                                   .kv_heads = e.heads,
                                   .dropout = e.attention_dropout}};
    FeedForward feed_forward{.up = w.linear(file + names.up, names.fused_gate ? 2 * e.d_ff : e.d_ff,
                                            e.d_model, c.bias.feed_forward),
                             .down = w.linear(file + names.down, e.d_model, e.d_ff, c.bias.feed_forward),
                             .activation = names.fused_gate ? Activation::silu : e.activation,
                             .fused_gate = names.fused_gate};
    if (!names.gate.empty())
      feed_forward.gate = w.linear(file + names.gate, e.d_ff, e.d_model, c.bias.feed_forward);
    const Norm first = norm(file + names.norm), second = norm(file + names.feed_forward_norm);
    ResidualStep attend = pre_norm("self_attn", first, attention, e.dropout),
                 feed = pre_norm("feed_forward", second, feed_forward, e.dropout);
    if (!names.scale.empty()) {
      attend = scaled(std::move(attend), file + names.scale);
      feed = scaled(std::move(feed), file + names.feed_forward_scale);
    }
    stack.layers.push_back({{std::move(attend), std::move(feed)}});
  }
  if (!names.final_norm.empty()) stack.final_norm = norm(prefix + names.final_norm);
  return stack;
}

std::int64_t side_of(std::int64_t patches) {
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(patches)));
}

std::int64_t register_count(const Config& json, std::int64_t default_value) {
  const std::int64_t count = json.integer("num_register_tokens", default_value);
  if (count < 0 || count > kMostPositions)
    json.fail("num_register_tokens", "0 to " + std::to_string(kMostPositions));
  return count;
}

VitConfig VitConfig::parse_layers(const Config& json, const VitDefaults& defaults) {
  VitConfig c;
  EncoderConfig& e = c.encoder = EncoderConfig::parse_common(json);
  e.d_model = json.positive_integer("hidden_size", defaults.d_model);
  e.layers = layer_count(json, "num_hidden_layers", 12);
  e.heads = json.positive_integer("num_attention_heads", defaults.heads);
  e.activation = activation_setting(json, "hidden_act", json.string("hidden_act", defaults.activation));
  e.norm_eps = norm_epsilon(json, "layer_norm_eps", defaults.norm_eps);
  e.attention_dropout = probability(json, defaults.attention_dropout, 0.0);
  check_heads(json, "num_attention_heads", e.d_model, e.heads);
  return c;
}

VitConfig VitConfig::parse(const Config& json, const VitDefaults& defaults) {
  VitConfig c = parse_layers(json, defaults);
  c.channels = json.positive_integer("num_channels", 3);
  c.image = height_and_width(json, "image_size", 224);
  c.patch = height_and_width(json, "patch_size", defaults.patch);
  if (c.image[0] < c.patch[0] || c.image[1] < c.patch[1])
    json.fail("patch_size", "at most the sizes of image_size");
  return c;
}

void VitConfig::count_tokens() {
  encoder.positions = grid().numel() + first_tokens();
  const std::int64_t tokens = encoder.positions + registers;
  (any_size() ? encoder.trained_positions : encoder.max_positions) = tokens;
}

EncoderParts take_vit_body(const VitConfig& c, const std::string& prefix, const VitNames& names,
                           WeightBuilder& w) {
  EncoderParts parts;
  parts.embeddings.frontend = take_vit_frontend(c, prefix, names, w);
  parts.stack = take_vit_stack(c, prefix, names, w);
  parts.normed_hidden_states = false;
  return parts;
}

}  // namespace heed
