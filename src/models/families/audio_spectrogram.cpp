// The audio spectrogram transformer, AST (Gong et al. 2021): its config, and the model built from parts.
#include <algorithm>

#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/vit_common.h"

namespace heed {
namespace {

struct AudioSpectrogramConfig {
  VitConfig body;

  static AudioSpectrogramConfig parse(const Config& json);
};

AudioSpectrogramConfig AudioSpectrogramConfig::parse(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "ASTModel" && architectures.front() != "Model" &&
      architectures.front() != "ASTForAudioClassification")
    json.fail("architectures", "ASTModel or ASTForAudioClassification");
  AudioSpectrogramConfig c;
  VitConfig& body = c.body = VitConfig::parse_layers(json, {});
  body.encoder.dropout = probability(json, "hidden_dropout_prob", 0.0);
  body.bias.query = body.bias.key = body.bias.value = json.boolean("qkv_bias", true);
  const auto size = [&](const char* key, std::int64_t default_value) {
    const std::int64_t value = json.positive_integer(key, default_value);
    if (value > kMostPixels) json.fail(key, "at most " + std::to_string(kMostPixels));
    return value;
  };
  body.encoder.d_ff = json.positive_integer("intermediate_size", 3072);
  body.encoder.sequence_input = SequenceInput::first_two;
  body.channels = 1;
  body.spectrogram = body.distillation = true;
  body.image = {size("num_mel_bins", 128), size("max_length", 1024)};
  const std::int64_t patch = size("patch_size", 16);
  if (std::min(body.image[0], body.image[1]) < patch)
    json.fail("patch_size", "at most num_mel_bins and max_length");
  body.patch = {patch, patch};
  body.stride = {size("frequency_stride", 10), size("time_stride", 10)};
  body.count_tokens();
  return c;
}

std::unique_ptr<Model> build_audio_spectrogram(const AudioSpectrogramConfig& c, WeightBuilder& w) {
  const EncoderConfig& e = c.body.encoder;
  const EncoderHeads heads{.prefix = "audio_spectrogram_transformer.",
                           .sequence = {.norm = "classifier.layernorm", .output = "classifier.dense"}};
  EncoderParts parts = take_vit_body(c.body, begin_body(e, heads, w), {}, w);
  parts.pool = pool_first_two();
  parts.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

Family audio_spectrogram_family() {
  return family<&AudioSpectrogramConfig::parse, build_audio_spectrogram>({"audio-spectrogram-transformer"});
}

}  // namespace heed
