// The Marian family: its config, and the model built from parts.
#include <algorithm>
#include <cmath>

#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

/// The settings of config.json, under its names.
struct MarianConfig {
  BartLayers layers;
  std::int64_t vocab_size = 0, decoder_vocab_size = 0, max_position_embeddings = 0;
  bool scale_embedding = false, share_encoder_decoder_embeddings = true, tie_word_embeddings = true;
  std::int64_t pad_token_id = 0, eos_token_id = 0, decoder_start_token_id = 0;
  std::optional<std::int64_t> forced_eos_token_id;

  static MarianConfig parse(const Config& json);
};

// One table for everything when embeddings are shared and tied. Where they are not tied, transformers keeps
// encoder, decoder and output apart even if they are called shared; older files then hold the shared one
// only.
EncoderDecoderParts take_embeddings(const MarianConfig& c, WeightBuilder& w) {
  const std::string shared = "model.shared.weight", source = "model.encoder.embed_tokens.weight",
                    target = "model.decoder.embed_tokens.weight";
  const OutputMap output{"lm_head.weight", c.tie_word_embeddings};
  const bool one_table = c.share_encoder_decoder_embeddings && output.tied;
  const auto take = [&](const std::string& name, std::int64_t count, std::vector<std::string> tied) {
    TensorRow row{.name = name,
                  .shape = {count, c.layers.d_model},
                  .init = Init::embedding,
                  .tied = std::move(tied),
                  .target = one_table ? AdapterTarget::none : AdapterTarget::token_table,
                  .padding = c.pad_token_id};
    if (c.share_encoder_decoder_embeddings && !one_table) row.aliases = {shared};
    w.take(std::move(row));
  };
  if (one_table) {
    take(shared, c.vocab_size, {source, target, output.name});
  } else {
    take(source, c.vocab_size, {});
    take(target, c.decoder_vocab_size, output.tied ? std::vector{output.name} : std::vector<std::string>());
  }
  const double scale = c.scale_embedding ? std::sqrt(static_cast<double>(c.layers.d_model)) : 1.0;
  EncoderDecoderParts parts;
  parts.source = {.tokens = {w[source], scale, c.pad_token_id}, .dropout = c.layers.dropout};
  parts.decoder.embeddings = {.tokens = {w[target], scale, c.pad_token_id}, .dropout = c.layers.dropout};
  parts.decoder.output.weight = w.output(output, c.decoder_vocab_size, c.layers.d_model);
  return parts;
}

std::string generation_json(const MarianConfig& c) {
  JsonWriter json(2);
  json.begin_object()
      .field("decoder_start_token_id", c.decoder_start_token_id)
      .field("eos_token_id", c.eos_token_id)
      .field("pad_token_id", c.pad_token_id)
      .field("forced_eos_token_id", c.forced_eos_token_id)
      .field("bad_words_ids", std::vector<std::vector<std::int64_t>>{{c.pad_token_id}})
      .field("max_length", c.max_position_embeddings)
      .end_object();
  return json.text() + "\n";
}

MarianConfig MarianConfig::parse(const Config& json) {
  MarianConfig c;
  c.layers = BartLayers::parse(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.share_encoder_decoder_embeddings = json.boolean("share_encoder_decoder_embeddings", true);
  c.decoder_vocab_size = json.positive_integer("decoder_vocab_size", c.vocab_size);
  if (c.share_encoder_decoder_embeddings && c.decoder_vocab_size != c.vocab_size) {
    json.fail("decoder_vocab_size",
              "vocab_size " + std::to_string(c.vocab_size) + ", as embeddings are shared");
  }
  c.max_position_embeddings = computed_positions(json);
  c.scale_embedding = json.boolean("scale_embedding", false);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  c.pad_token_id = json.integer("pad_token_id", 58100);
  c.eos_token_id = single_id(json, "eos_token_id", 0);
  c.decoder_start_token_id = json.integer("decoder_start_token_id", c.pad_token_id);
  if (json.has("forced_eos_token_id"))
    c.forced_eos_token_id = single_id(json, "forced_eos_token_id", c.eos_token_id);
  check_id(json, "pad_token_id", c.pad_token_id, std::min(c.vocab_size, c.decoder_vocab_size));
  check_id(json, "eos_token_id", c.eos_token_id, c.decoder_vocab_size);
  check_id(json, "decoder_start_token_id", c.decoder_start_token_id, c.decoder_vocab_size);
  return c;
}

std::unique_ptr<Model> build_marian(const MarianConfig& c, WeightBuilder& w) {
  w.set_prefix("model.");
  EncoderDecoderParts parts = take_embeddings(c, w);
  take_bart_layers(parts, c.layers, w);
  parts.decoder.output.bias = take_logits_bias(w, c.decoder_vocab_size);
  w.ignore("model.encoder.embed_positions.weight");
  w.ignore("model.decoder.embed_positions.weight");
  ModelContents files = w.finish();
  if (files.generation.empty()) files.generation = generation_json(c);
  parts.source.positions = parts.decoder.embeddings.positions = AdditivePositions(
      sinusoidal_table(c.max_position_embeddings, c.layers.d_model, SinusoidLayout::halves));
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.decoder_vocab_size,
                                   .pad_id = c.pad_token_id,
                                   .eos_id = c.eos_token_id,
                                   .decoder_start_id = c.decoder_start_token_id,
                                   .max_positions = c.max_position_embeddings});
}

}  // namespace

Family marian_family() {
  Family marian = family<&MarianConfig::parse, build_marian>({"marian"});
  marian.initializer_range = 0;  // Glorot and Bengio 2010, as the Marian toolkit does
  return marian;
}

}  // namespace heed
