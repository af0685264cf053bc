// Models that read an image and write text, such as captions or a line of handwriting: an encoder and a
// decoder, each of a family of its own (VisionEncoderDecoderModel). Their config, and the model built from
// parts.
#include <map>

#include "models/config_fields.h"
#include "models/encoder_decoder.h"
#include "models/families.h"
#include "models/families/towers.h"

namespace heed {
namespace {

struct VisionEncoderDecoderConfig {
  ImageTower encoder;
  TextTower decoder;
  bool projects = false;      // the encoder's output to the decoder's width
  std::int64_t d_memory = 0;  // of what the decoder reads
  std::int64_t pad = 0, eos = 0, start = 0;

  static VisionEncoderDecoderConfig parse(const Config& json);
};

// The tower that the object's model_type names.
template <class Tower>
Tower tower_of(const std::map<std::string, Tower (*)(const Config&)>& families, const Config& json) {
  const auto found = families.find(json.required_string("model_type"));
  if (found == families.end()) {
    std::string names;
    for (const auto& [name, parse] : families) names += (names.empty() ? "one of " : ", ") + name;
    json.fail("model_type", names);
  }
  Tower tower = found->second(json);
  ignore_common_keys(json);
  return tower;
}

// The first token under `key` in one of the objects.
std::optional<std::int64_t> token_setting(const Config& json, const Config& decoder, const char* key) {
  std::optional<std::int64_t> token;
  for (const Config& one : {decoder, json}) {
    if (const std::vector<std::int64_t> ids = one.integers(key); !ids.empty()) token = ids.front();
  }
  return token;
}

VisionEncoderDecoderConfig VisionEncoderDecoderConfig::parse(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && architectures.front() != "VisionEncoderDecoderModel")
    json.fail("architectures", "VisionEncoderDecoderModel");
  const Config encoder = json.sub("encoder"), decoder = json.sub("decoder");
  VisionEncoderDecoderConfig c;
  c.encoder = tower_of<ImageTower>({{"deit", vit_tower},
                                    {"dinov2", dinov2_tower},
                                    {"dinov2_with_registers", dinov2_tower},
                                    {"dinov3_vit", dinov3_tower},
                                    {"vit", vit_tower}},
                                   encoder);
  c.decoder = tower_of<TextTower>({{"bert", bert_tower},
                                   {"camembert", roberta_tower},
                                   {"gpt2", gpt2_tower},
                                   {"roberta", roberta_tower},
                                   {"trocr", trocr_tower},
                                   {"xlm-roberta", roberta_tower}},
                                  decoder);
  const std::int64_t d_encoder = c.encoder.body.encoder.d_model, d_decoder = c.decoder.d_model;
  const char* const width = "cross_attention_hidden_size";
  if (const auto stated = decoder.optional_integer(width);
      stated && (*stated != d_encoder || (!c.decoder.reads_any_width && *stated != d_decoder))) {
    decoder.fail(width, c.decoder.reads_any_width ? "the encoder's hidden_size, " + std::to_string(d_encoder)
                                                  : "null, as this decoder reads states of its own width");
  } else {
    c.projects = !stated && d_encoder != d_decoder;
  }
  c.d_memory = c.projects ? d_decoder : d_encoder;
  const auto token = [&](const char* key, std::optional<std::int64_t> otherwise) {
    const std::optional<std::int64_t> id = token_setting(json, decoder, key);
    if (!id && !otherwise) json.fail(key, "a token id");
    check_id(json, key, id.value_or(otherwise.value_or(0)), c.decoder.vocab_size);
    return id.value_or(otherwise.value_or(0));
  };
  c.eos = token("eos_token_id", c.decoder.eos);
  c.pad = token("pad_token_id", c.decoder.pad ? c.decoder.pad : c.eos);
  const std::optional<std::int64_t> first = token_setting(json, decoder, "bos_token_id");
  c.start = token("decoder_start_token_id", c.decoder.start ? c.decoder.start : first);
  // That of the halves decides.
  json.ignore({"is_encoder_decoder", "tie_word_embeddings", "vocab_size"});
  return c;
}

std::unique_ptr<Model> build_vision_encoder_decoder(const VisionEncoderDecoderConfig& c, WeightBuilder& w) {
  const std::int64_t d_encoder = c.encoder.body.encoder.d_model;
  EncoderParts image = take_vit_body(c.encoder.body, "encoder.", c.encoder.names, w);
  // The pooler is in files and of no use.
  if (const std::string pooler = "encoder.pooler.dense"; c.encoder.pooled > 0 && w.has(pooler + ".weight"))
    w.linear(pooler, c.encoder.pooled, d_encoder);
  EncoderDecoderParts parts;
  parts.source = std::move(image.embeddings);
  parts.encoder = std::move(image.stack);
  parts.normed_encoder_states = image.normed_hidden_states;
  if (c.projects) parts.memory_projection = w.linear("enc_to_dec_proj", c.d_memory, d_encoder);
  parts.decoder = c.decoder.take("decoder.", c.d_memory, w);
  ModelContents files = w.finish();
  if (const auto& padding = c.decoder.computed_from_padding) {
    parts.decoder.embeddings.positions = AdditivePositions(
        sinusoidal_table_to_10000(*padding + 1, c.decoder.max_positions, c.decoder.d_model), 1);
  }
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.decoder.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = c.decoder.max_positions});
}

}  // namespace

Family vision_encoder_decoder_family() {
  return family<&VisionEncoderDecoderConfig::parse, build_vision_encoder_decoder>({"vision-encoder-decoder"});
}

}  // namespace heed
