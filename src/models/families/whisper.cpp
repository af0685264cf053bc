// Whisper: its config, and the model built from parts.
#include <cmath>

#include "heed/nn/linear.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

constexpr std::int64_t kMostWhisperPositions = 65536;

struct WhisperConfig {
  BartLayers layers;
  std::int64_t vocab_size = 0, bins = 0, audio_positions = 0, text_positions = 0;
  std::int64_t pad = 0, eos = 0, start = 0;
  bool tied = true;

  static WhisperConfig parse(const Config& json);
};

WhisperConfig WhisperConfig::parse(const Config& json) {
  WhisperConfig c;
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "WhisperForConditionalGeneration" &&
      architectures.front() != "WhisperModel")
    json.fail("architectures", "WhisperForConditionalGeneration or WhisperModel");
  c.vocab_size = json.positive_integer("vocab_size", 51865);
  c.bins = json.positive_integer("num_mel_bins", 80);
  c.audio_positions = json.positive_integer("max_source_positions", 1500);
  c.text_positions = json.positive_integer("max_target_positions", 448);
  if (c.audio_positions > kMostWhisperPositions)
    json.fail("max_source_positions", "at most " + std::to_string(kMostWhisperPositions));
  BartLayers& l = c.layers;
  l.d_model = json.positive_integer("d_model", 384);
  l.encoder_layers = layer_count(json, "encoder_layers", 4);
  l.decoder_layers = layer_count(json, "decoder_layers", 4);
  l.encoder_heads = json.positive_integer("encoder_attention_heads", 6);
  l.decoder_heads = json.positive_integer("decoder_attention_heads", 6);
  l.encoder_d_ff = json.positive_integer("encoder_ffn_dim", 1536);
  l.decoder_d_ff = json.positive_integer("decoder_ffn_dim", 1536);
  l.activation = activation_setting(json, "activation_function", json.string("activation_function", "gelu"));
  l.dropout = probability(json, "dropout", 0.0);
  l.attention_dropout = probability(json, "attention_dropout", 0.0);
  l.activation_dropout = probability(json, "activation_dropout", 0.0);
  l.norm_first = true;
  l.key_bias = false;
  c.tied = json.boolean("tie_word_embeddings", true);
  c.pad = json.integer("pad_token_id", 50256);
  c.eos = single_id(json, "eos_token_id", 50256);
  c.start = json.integer("decoder_start_token_id", 50257);
  check_heads(json, "encoder_attention_heads", l.d_model, l.encoder_heads);
  check_heads(json, "decoder_attention_heads", l.d_model, l.decoder_heads);
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  // Settings of training and of other heads, and of finding the times of words; transformers scales no
  // embedding of this family, whatever scale_embedding says.
  json.ignore({"apply_spec_augment", "classifier_proj_size", "decoder_layerdrop", "encoder_layerdrop",
               "forced_decoder_ids", "init_std", "is_encoder_decoder", "mask_feature_length",
               "mask_feature_min_masks", "mask_feature_prob", "mask_time_length", "mask_time_min_masks",
               "mask_time_prob", "median_filter_width", "num_hidden_layers", "scale_embedding",
               "use_weighted_layer_sum"});
  return c;
}

// A spectrogram to [B, T, D]: two convolutions with GELU, then positions.
class WhisperFrontend final : public Frontend {
 public:
  WhisperFrontend(const Shape& row, Conv1d first, Conv1d second, AdditivePositions positions, double dropout)
      : row_(row),
        first_(std::move(first)),
        second_(std::move(second)),
        positions_(std::move(positions)),
        dropout_(dropout) {}
  InputSpec input() const override { return {InputKind::spectrogram, row_, "input_features"}; }
  Tensor operator()(const ModelInput& given, const Tensor& /*shown*/, Context& context) const override {
    const Tensor x = second_(first_(transpose(given.values, 1, 2), Activation::gelu), Activation::gelu);
    return apply_dropout(positions_.embed(x, 0), dropout_, context);
  }

 private:
  Shape row_;
  Conv1d first_, second_;
  AdditivePositions positions_;
  double dropout_;
};

// The encoder's positions in a new model: all sines before all cosines, the last of wavelength 2 pi 10000.
void fill_sinusoids(Tensor table) {
  const std::int64_t d_model = table.size(1), half = d_model / 2;
  float* row = table.data<float>();
  for (std::int64_t p = 0; p < table.size(0); ++p, row += d_model) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double share = half > 1 ? static_cast<double>(i) / static_cast<double>(half - 1) : 0.0;
      const double angle = static_cast<double>(p) * std::pow(10000.0, -share);
      row[i] = static_cast<float>(std::sin(angle));
      row[half + i] = static_cast<float>(std::cos(angle));
    }
  }
}

std::unique_ptr<Model> build_whisper(const WhisperConfig& c, WeightBuilder& w) {
  const std::int64_t d_model = c.layers.d_model;
  const OutputMap output{"proj_out.weight", c.tied};
  w.set_prefix("model.");
  EncoderDecoderParts parts;
  InputEmbeddings& text = parts.decoder.embeddings;
  text.tokens = {w.embedding("model.decoder.embed_tokens.weight", c.vocab_size, d_model, c.pad, output), 1.0,
                 c.pad};
  text.dropout = c.layers.dropout;
  parts.decoder.output.weight = w.output(output, c.vocab_size, d_model);
  text.positions = AdditivePositions(w.tensor({.name = "model.decoder.embed_positions.weight",
                                               .shape = {c.text_positions, d_model},
                                               .init = Init::embedding}));
  const AdditivePositions frame_positions(w.tensor({.name = "model.encoder.embed_positions.weight",
                                                    .shape = {c.audio_positions, d_model},
                                                    .trained = false,
                                                    .fill = fill_sinusoids}));
  const auto convolution = [&](const std::string& name, std::int64_t in, std::int64_t stride) -> Conv1d {
    return {w.tensor({.name = name + ".weight", .shape = {d_model, in, 3}}), w.bias(name + ".bias", d_model),
            stride, 1};
  };
  const Conv1d first = convolution("model.encoder.conv1", c.bins, 1);
  const Conv1d second = convolution("model.encoder.conv2", d_model, 2);
  parts.source.frontend = std::make_shared<WhisperFrontend>(Shape{c.bins, 2 * c.audio_positions}, first,
                                                            second, frame_positions, c.layers.dropout);
  parts.encoder.final_norm = w.layer_norm("model.encoder.layer_norm", d_model, kBartNormEps);
  parts.decoder.stack.final_norm = w.layer_norm("model.decoder.layer_norm", d_model, kBartNormEps);
  take_bart_layers(parts, c.layers, w);
  return assemble_encoder_decoder(w.finish(), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = c.text_positions});
}

}  // namespace

Family whisper_family() { return family<&WhisperConfig::parse, build_whisper>({"whisper"}); }

}  // namespace heed
