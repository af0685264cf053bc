// Moonshine (Jeffries et al. 2024): its config, and the model built from parts.
#include <algorithm>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/encoder_decoder.h"
#include "models/families.h"
#include "models/families/waveform.h"

namespace heed {
namespace {

constexpr double kMoonshineNormEps = 1e-5;

// One of the two stacks.
struct MoonshineStack {
  std::int64_t layers = 0, heads = 0;
  Activation activation = Activation::gelu;
  RotaryOptions rotary;
};

struct MoonshineConfig {
  MoonshineStack encoder, decoder;
  std::int64_t vocab_size = 0, d_model = 0, d_ff = 0, positions = 0;
  std::int64_t pad = 0, eos = 0, start = 0;
  std::optional<std::int64_t> padding;
  bool tied = true, bias = false;
  double attention_dropout = 0.0;

  static MoonshineConfig parse(const Config& json);
};

MoonshineConfig MoonshineConfig::parse(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "MoonshineForConditionalGeneration" &&
      architectures.front() != "MoonshineModel")
    json.fail("architectures", "MoonshineForConditionalGeneration or MoonshineModel");
  MoonshineConfig c;
  c.vocab_size = json.positive_integer("vocab_size", 32768);
  c.d_model = json.positive_integer("hidden_size", 288);
  c.d_ff = json.positive_integer("intermediate_size", 1152);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  const auto stack = [&](const char* layers, const char* heads, const char* kv_heads, const char* activation,
                         const char* activation_default) {
    MoonshineStack s;
    s.layers = layer_count(json, layers, 6);
    s.heads = json.positive_integer(heads, 8);
    check_heads(json, heads, c.d_model, s.heads);
    if (integer_or_null(json, kv_heads, s.heads, s.heads) != s.heads)
      json.fail(kv_heads, "as many as " + std::string(heads) + ", as transformers runs no others");
    s.activation = activation_setting(json, activation, json.string(activation, activation_default));
    s.rotary = rotary_options(json, c.d_model / s.heads, c.positions,
                              {.partial = "partial_rotary_factor", .partial_default = 0.9});
    s.rotary.layout = RotaryLayout::interleaved;
    if (follows_length(s.rotary))
      json.fail("rope_parameters", "frequencies that do not depend on the length");
    return s;
  };
  c.encoder = stack("encoder_num_hidden_layers", "encoder_num_attention_heads", "encoder_num_key_value_heads",
                    "encoder_hidden_act", "gelu");
  // The decoder's settings may have the common names.
  c.decoder = stack(common_or_own(json, "num_hidden_layers", "decoder_num_hidden_layers"),
                    common_or_own(json, "num_attention_heads", "decoder_num_attention_heads"),
                    common_or_own(json, "num_key_value_heads", "decoder_num_key_value_heads"),
                    common_or_own(json, "hidden_act", "decoder_hidden_act"), "silu");
  c.bias = json.boolean("attention_bias", false);
  c.attention_dropout = probability(json, "attention_dropout", 0.0);
  c.tied = json.boolean("tie_word_embeddings", true);
  c.eos = single_id(json, "eos_token_id", 2);
  c.start = json.integer("decoder_start_token_id", 1);
  c.padding = padding_setting(json, {}, c.vocab_size);
  c.pad = c.padding.value_or(c.eos);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  // Heads are padded with zeros for some ways to compute attention, which changes no result.
  json.ignore({"initializer_range", "is_encoder_decoder", "pad_head_dim_to_multiple_of"});
  return c;
}

class MoonshineFrontend final : public Frontend {
 public:
  explicit MoonshineFrontend(FrameStages stages) : stages_(std::move(stages)) {
    for (const FrameStage& stage : stages_.stages) hop_ *= stage.convolution.stride;
  }
  InputSpec input() const override { return stages_.input(); }
  Tensor operator()(const ModelInput& given, const Tensor& /*shown*/, Context& /*context*/) const override {
    return stages_(given.values);
  }
  // A frame counts if the first of its samples does.
  Tensor token_mask(const Tensor& samples) const override {
    const std::int64_t batch = samples.size(0), length = samples.size(1), time = stages_.frames(length);
    const Tensor mask = Tensor::zeros({batch, time}, DType::i64), dense = samples.contiguous();
    for (std::int64_t i = 0; i < batch * time; ++i)
      mask.data<std::int64_t>()[i] =
          dense.data<std::int64_t>()[i / time * length + i % time * hop_] != 0 ? 1 : 0;
    return mask;
  }

 private:
  FrameStages stages_;
  std::int64_t hop_ = 1;  // samples from one frame to the next
};

FrameStages take_moonshine_stages(std::int64_t d, WeightBuilder& w) {
  const std::string file = "model.encoder.";
  FrameStages made;
  made.stages.push_back({take_convolution(w, file + "conv1", {d, 1, 127}, 64, false),
                         {},
                         Activation::tanh,
                         take_group_norm(w, file + "groupnorm", 1, d)});
  made.stages.push_back({take_convolution(w, file + "conv2", {2 * d, d, 7}, 3, true)});
  made.stages.push_back({take_convolution(w, file + "conv3", {d, 2 * d, 3}, 2, true)});
  return made;
}

// The layers of one stack: the encoder's, or those of a decoder with cross-attention and gates.
std::vector<Layer> take_moonshine_layers(const MoonshineConfig& c, const std::string& name,
                                         WeightBuilder& w) {
  const bool decodes = name == "decoder";
  const MoonshineStack& s = decodes ? c.decoder : c.encoder;
  const std::int64_t d = c.d_model;
  const auto rotary = s.rotary.dim > 0 ? std::make_shared<RotaryPositions>(s.rotary) : nullptr;
  const auto attention = [&](const std::string& file) {
    return MultiHeadAttention{.q = w.linear(file + "q_proj", d, d, c.bias),
                              .k = w.linear(file + "k_proj", d, d, c.bias),
                              .v = w.linear(file + "v_proj", d, d, c.bias),
                              .out = w.linear(file + "o_proj", d, d, false),
                              .heads = s.heads,
                              .kv_heads = s.heads,
                              .dropout = c.attention_dropout};
  };
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string file = "model." + name + ".layers." + std::to_string(i) + ".";
    const auto step = [&](const char* part_name, const char* norm, Part part) {
      return pre_norm(part_name, w.layer_norm(file + norm, d, kMoonshineNormEps, false), std::move(part));
    };
    SelfAttention self{attention(file + "self_attn.")};
    self.attention.rotary = rotary;
    Layer layer{{step("self_attn", "input_layernorm", self)}};
    if (decodes) {
      const CrossAttention cross{attention(file + "encoder_attn.")};
      layer.steps.push_back(step("cross_attn", "post_attention_layernorm", cross));
    }
    const FeedForward feed_forward{.up = w.linear(file + "mlp.fc1", decodes ? 2 * c.d_ff : c.d_ff, d),
                                   .down = w.linear(file + "mlp.fc2", d, c.d_ff),
                                   .activation = s.activation,
                                   .fused_gate = decodes,
                                   .gate_last = decodes};
    layer.steps.push_back(
        step("feed_forward", decodes ? "final_layernorm" : "post_attention_layernorm", feed_forward));
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::unique_ptr<Model> build_moonshine(const MoonshineConfig& c, WeightBuilder& w) {
  const OutputMap output{"proj_out.weight", c.tied};
  const auto norm = [&](const char* name) { return w.layer_norm(name, c.d_model, kMoonshineNormEps, false); };
  w.set_prefix("model.");
  EncoderDecoderParts parts;
  parts.source.frontend = std::make_shared<MoonshineFrontend>(take_moonshine_stages(c.d_model, w));
  parts.encoder.layers = take_moonshine_layers(c, "encoder", w);
  parts.encoder.final_norm = norm("model.encoder.layer_norm");
  parts.decoder.embeddings.tokens = {
      w.embedding("model.decoder.embed_tokens.weight", c.vocab_size, c.d_model, c.padding, output), 1.0,
      c.padding};
  parts.decoder.stack.name = "decoder";
  parts.decoder.stack.layers = take_moonshine_layers(c, "decoder", w);
  parts.decoder.stack.final_norm = norm("model.decoder.norm");
  parts.decoder.output.weight = w.output(output, c.vocab_size, c.d_model);
  return assemble_encoder_decoder(w.finish(), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .trained_positions = c.positions});
}

}  // namespace

Family moonshine_family() { return family<&MoonshineConfig::parse, build_moonshine>({"moonshine"}); }

}  // namespace heed
