// wav2vec 2.0 (Baevski et al. 2020): its config, and the model built from parts.
#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/families.h"
#include "models/families/waveform.h"

namespace heed {
namespace {

constexpr std::int64_t kMostSamples = 1 << 24;  // of a frame
constexpr double kFeatureNormEps = 1e-5;        // whatever layer_norm_eps says

struct Wav2Vec2Config {
  EncoderConfig encoder;
  std::vector<std::int64_t> channels, widths, strides;  // of the convolutions that make frames
  bool bias = false, norms_all = false, norm_first = false, masks = false;
  Activation feature_activation = Activation::gelu;
  std::int64_t position_width = 0, position_groups = 0;
  double feature_dropout = 0.0, activation_dropout = 0.0;

  static Wav2Vec2Config parse(const Config& json);
  void parse_convolutions(const Config& json);
};

void Wav2Vec2Config::parse_convolutions(const Config& json) {
  const auto sizes = [&](const char* key, std::vector<std::int64_t> default_values, std::int64_t most) {
    std::vector<std::int64_t> values = json.integers(key);
    if (values.empty()) values = std::move(default_values);
    for (const std::int64_t value : values)
      if (value < 1 || value > most) json.fail(key, "numbers from 1 to " + std::to_string(most));
    return values;
  };
  channels = sizes("conv_dim", std::vector<std::int64_t>(7, 512), 1 << 20);
  widths = sizes("conv_kernel", {10, 3, 3, 3, 3, 2, 2}, kMostSamples);
  strides = sizes("conv_stride", {5, 2, 2, 2, 2, 2, 2}, kMostSamples);
  if (channels.size() > 64) json.fail("conv_dim", "at most 64 layers");
  for (const auto& [key, values] : {std::pair("conv_kernel", &widths), std::pair("conv_stride", &strides)}) {
    if (values->size() != channels.size())
      json.fail(key, "one for each of the " + std::to_string(channels.size()) + " layers of conv_dim");
  }
  std::int64_t samples = 1;
  for (std::size_t i = channels.size(); i-- > 0;) {
    samples = (samples - 1) * strides[i] + widths[i];
    if (samples > kMostSamples)
      json.fail("conv_stride", "frames of at most " + std::to_string(kMostSamples) + " samples");
  }
  bias = json.boolean("conv_bias", false);
  const std::string norm = json.string("feat_extract_norm", "group");
  if (norm != "group" && norm != "layer") json.fail("feat_extract_norm", "group or layer");
  norms_all = norm == "layer";
  feature_activation =
      activation_setting(json, "feat_extract_activation", json.string("feat_extract_activation", "gelu"));
  feature_dropout = probability(json, "feat_proj_dropout", 0.0);
  position_width = json.positive_integer("num_conv_pos_embeddings", 128);
  position_groups = json.positive_integer("num_conv_pos_embedding_groups", 16);
  if (position_width > kMostPositions)
    json.fail("num_conv_pos_embeddings", "at most " + std::to_string(kMostPositions));
  if (position_groups > kMostHeads || encoder.d_model % position_groups != 0)
    json.fail("num_conv_pos_embedding_groups", "a divisor of hidden_size " + std::to_string(encoder.d_model));
}

Wav2Vec2Config Wav2Vec2Config::parse(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "Wav2Vec2Model" &&
      architectures.front() != "Model" && architectures.front() != "Wav2Vec2ForCTC")
    json.fail("architectures", "Wav2Vec2ForCTC or Wav2Vec2Model");
  Wav2Vec2Config c;
  EncoderConfig& e = c.encoder = EncoderConfig::parse_common(json);
  e.vocab_size = json.positive_integer("vocab_size", 32);
  e.d_model = json.positive_integer("hidden_size", 768);
  e.layers = layer_count(json, "num_hidden_layers", 12);
  e.heads = json.positive_integer("num_attention_heads", 12);
  e.d_ff = json.positive_integer("intermediate_size", 3072);
  e.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  e.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-5);
  e.dropout = probability(json, "hidden_dropout", 0.1);
  e.attention_dropout = probability(json, "attention_dropout", 0.1);
  e.head_dropout = probability(json, "final_dropout", 0.1);
  c.activation_dropout = probability(json, "activation_dropout", 0.1);
  check_heads(json, "num_attention_heads", e.d_model, e.heads);
  e.padding = json.integer("pad_token_id", 0);
  check_id(json, "pad_token_id", *e.padding, e.vocab_size);
  c.norm_first = json.boolean("do_stable_layer_norm", false);
  c.parse_convolutions(json);
  const std::string reduction = json.string("ctc_loss_reduction", "sum");
  if (reduction != "sum" && reduction != "mean") json.fail("ctc_loss_reduction", "sum or mean");
  e.ctc = {.blank = *e.padding,
           .reduction = reduction == "sum" ? Reduction::sum : Reduction::mean,
           .zero_infinity = json.boolean("ctc_zero_infinity", false)};
  if (json.boolean("add_adapter", false))
    json.fail("add_adapter", "false, as convolutions after the encoder are not run");
  if (json.has("adapter_attn_dim"))
    json.fail("adapter_attn_dim", "null, as adapters of languages are not read");
  const double masked_frames = json.number("mask_time_prob", 0.05),
               masked_features = json.number("mask_feature_prob", 0.0);
  c.masks = masked_frames > 0 || masked_features > 0;
  // SpecAugment and layers left out, which only training has; adapters; pretraining; other heads. The number
  // of convolutions is that of conv_dim.
  json.ignore({"adapter_attn_dim",
               "adapter_kernel_size",
               "adapter_stride",
               "apply_spec_augment",
               "classifier_proj_size",
               "codevector_dim",
               "contrastive_logits_temperature",
               "diversity_loss_weight",
               "feat_quantizer_dropout",
               "layerdrop",
               "mask_feature_length",
               "mask_feature_min_masks",
               "mask_time_length",
               "mask_time_min_masks",
               "num_adapter_layers",
               "num_codevector_groups",
               "num_codevectors_per_group",
               "num_feat_extract_layers",
               "num_negatives",
               "output_hidden_size",
               "proj_codevector_dim",
               "tdnn_dilation",
               "tdnn_dim",
               "tdnn_kernel",
               "use_weighted_layer_sum",
               "xvector_output_dim"});
  return c;
}

// Samples to frames, and their positions by a convolution over the frames around each.
class Wav2Vec2Frontend final : public Frontend {
 public:
  struct Parts {
    FrameStages stages;
    Norm norm;
    Linear projection;
    double projection_dropout = 0.0;
    Conv1d positions;
    Activation positions_activation = Activation::gelu;
    std::optional<Norm> norm_after = {};
    double dropout = 0.0;
  };
  explicit Wav2Vec2Frontend(Parts parts) : p_(std::move(parts)) {}
  InputSpec input() const override { return p_.stages.input(); }
  Tensor operator()(const ModelInput& given, const Tensor& shown, Context& context) const override;
  Tensor token_mask(const Tensor& samples) const override;

 private:
  Parts p_;
};

Tensor Wav2Vec2Frontend::operator()(const ModelInput& given, const Tensor& shown, Context& context) const {
  Tensor features = p_.norm(p_.stages(given.values));
  tap(context, kFeaturesTap, features);
  Tensor x = apply_dropout(p_.projection(features), p_.projection_dropout, context);
  if (shown.defined()) x = x * unsqueeze(shown, 2).to(x.dtype());
  // A kernel of an even width makes one frame more, which is left out.
  x = x + slice(p_.positions(x, p_.positions_activation), 1, 0, x.size(1));
  return apply_dropout(p_.norm_after ? (*p_.norm_after)(x) : x, p_.dropout, context);
}

// The first frames of a row, as many as its samples that count would give alone.
Tensor Wav2Vec2Frontend::token_mask(const Tensor& samples) const {
  const std::int64_t batch = samples.size(0), length = samples.size(1), time = p_.stages.frames(length);
  const Tensor mask = Tensor::zeros({batch, time}, DType::i64), dense = samples.contiguous();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t* row = dense.data<std::int64_t>() + b * length;
    const std::int64_t frames = p_.stages.frames(length - std::count(row, row + length, 0));
    if (frames == 0 && time > 0) {
      throw Error(
          "encode: attention_mask: expected enough samples for a frame in each row, got fewer in row " +
          std::to_string(b));
    }
    std::fill_n(mask.data<std::int64_t>() + b * time, frames, 1);
  }
  return mask;
}

FrameStages take_frame_stages(const Wav2Vec2Config& c, const std::string& prefix, WeightBuilder& w) {
  FrameStages made;
  for (std::size_t i = 0; i < c.channels.size(); ++i) {
    const std::string file = prefix + "feature_extractor.conv_layers." + std::to_string(i) + ".";
    const std::int64_t out = c.channels[i], in = i > 0 ? c.channels[i - 1] : 1;
    FrameStage stage{take_convolution(w, file + "conv", {out, in, c.widths[i]}, c.strides[i], c.bias)};
    stage.activation = c.feature_activation;
    if (c.norms_all) {
      stage.norm = w.layer_norm(file + "layer_norm", out, kFeatureNormEps);
    } else if (i == 0) {
      stage.norm = take_group_norm(w, file + "layer_norm", out, out);
    }
    made.stages.push_back(std::move(stage));
  }
  return made;
}

// The magnitude and the direction have other names in files of transformers before version 5.
Conv1d take_positions(const Wav2Vec2Config& c, const std::string& file, WeightBuilder& w) {
  const std::int64_t d = c.encoder.d_model, inputs = d / c.position_groups, width = c.position_width;
  const double std = 2.0 / std::sqrt(static_cast<double>(width) * static_cast<double>(d));
  const double norm = std * std::sqrt(static_cast<double>(d) * static_cast<double>(inputs));
  const std::string stored = file + ".parametrizations.weight.original";
  Conv1d layer;
  layer.padding = width / 2;
  layer.groups = c.position_groups;
  layer.magnitude =
      w.tensor({.name = stored + "0",
                .shape = {1, 1, width},
                .aliases = {file + ".weight_g"},
                .fill = [norm](const Tensor& t) { t.copy_from(Tensor::full(t.shape(), norm)); }});
  layer.weight = w.tensor(
      {.name = stored + "1", .shape = {d, inputs, width}, .aliases = {file + ".weight_v"}, .init_std = std});
  layer.bias = w.bias(file + ".bias", d);
  return layer;
}

Layer take_wav2vec2_layer(const Wav2Vec2Config& c, const std::string& file, WeightBuilder& w) {
  const EncoderConfig& e = c.encoder;
  const auto project = [&](const char* name) {
    return w.linear(file + "attention." + name, e.d_model, e.d_model);
  };
  const auto step = [&](const char* name, const char* norm, Part part) {
    return (c.norm_first ? pre_norm : post_norm)(name, w.layer_norm(file + norm, e.d_model, e.norm_eps),
                                                 std::move(part), e.dropout);
  };
  const SelfAttention attention{{.q = project("q_proj"),
                                 .k = project("k_proj"),
                                 .v = project("v_proj"),
                                 .out = project("out_proj"),
                                 .heads = e.heads,
                                 .kv_heads = e.heads,
                                 .dropout = e.attention_dropout}};
  const FeedForward feed_forward{.up = w.linear(file + "feed_forward.intermediate_dense", e.d_ff, e.d_model),
                                 .down = w.linear(file + "feed_forward.output_dense", e.d_model, e.d_ff),
                                 .activation = e.activation,
                                 .dropout = c.activation_dropout};
  return {
      {step("self_attn", "layer_norm", attention), step("feed_forward", "final_layer_norm", feed_forward)}};
}

std::unique_ptr<Model> build_wav2vec2(const Wav2Vec2Config& c, WeightBuilder& w) {
  const EncoderConfig& e = c.encoder;
  const EncoderHeads heads{.prefix = "wav2vec2.",
                           .token = {},
                           .span = {},
                           .ctc = {.first_dropout = e.head_dropout, .output = "lm_head"},
                           .unused = {}};
  const std::string prefix = begin_body(e, heads, w), encoder = prefix + "encoder.";
  if (c.masks)  // in place of frames that SpecAugment hides
    w.tensor(
        {.name = prefix + "masked_spec_embed", .shape = {e.d_model}, .init = Init::zeros, .required = false});
  else
    w.ignore(prefix + "masked_spec_embed");
  Wav2Vec2Frontend::Parts parts{
      .stages = take_frame_stages(c, prefix, w),
      .norm = w.layer_norm(prefix + "feature_projection.layer_norm", c.channels.back(), e.norm_eps),
      .projection = w.linear(prefix + "feature_projection.projection", e.d_model, c.channels.back()),
      .projection_dropout = c.feature_dropout,
      .positions = take_positions(c, encoder + "pos_conv_embed.conv", w),
      .positions_activation = c.feature_activation,
      .dropout = e.dropout};
  EncoderParts model;
  const Norm norm = w.layer_norm(encoder + "layer_norm", e.d_model, e.norm_eps);
  (c.norm_first ? model.stack.final_norm : parts.norm_after) = norm;
  for (std::int64_t i = 0; i < e.layers; ++i)
    model.stack.layers.push_back(take_wav2vec2_layer(c, encoder + "layers." + std::to_string(i) + ".", w));
  model.embeddings.frontend = std::make_shared<Wav2Vec2Frontend>(std::move(parts));
  model.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(model));
}

}  // namespace

Family wav2vec2_family() { return family<&Wav2Vec2Config::parse, build_wav2vec2>({"wav2vec2"}); }

}  // namespace heed
