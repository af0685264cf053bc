// The Marian family: its config, its table of tensors, and the model built from parts.
#include <algorithm>
#include <cmath>

#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bart_common.h"
#include "models/tensor_rows.h"

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

bool one_table(const MarianConfig& c) { return c.share_encoder_decoder_embeddings && c.tie_word_embeddings; }

// One table for everything when embeddings are shared and tied. Where they are not tied, transformers keeps
// encoder, decoder and output apart even if they are called shared; older files then hold the shared one
// only.
void add_embeddings(TensorTable& table, const MarianConfig& c) {
  const std::string shared = "model.shared.weight", encoder = "model.encoder.embed_tokens.weight";
  const std::string decoder = "model.decoder.embed_tokens.weight", output = "lm_head.weight";
  if (one_table(c)) {
    add_embedding(table, shared, c.vocab_size, c.layers.d_model, c.pad_token_id);
    table.rows.back().tied = {encoder, decoder, output};
    table.rows.back().map = MapKind::none;
    return;
  }
  const std::vector<std::string> aliases =
      c.share_encoder_decoder_embeddings ? std::vector<std::string>{shared} : std::vector<std::string>{};
  add_embedding(table, encoder, c.vocab_size, c.layers.d_model, c.pad_token_id);
  table.rows.back().aliases = aliases;
  add_embedding(table, decoder, c.decoder_vocab_size, c.layers.d_model, c.pad_token_id);
  table.rows.back().aliases = aliases;
  if (c.tie_word_embeddings) table.rows.back().tied.push_back(output);
  if (!c.tie_word_embeddings) add_output(table, false, output, {c.decoder_vocab_size, c.layers.d_model});
}

TensorTable marian_table(const MarianConfig& c, const HasTensor&) {
  TensorTable table;
  table.prefix = "model.";
  add_embeddings(table, c);
  add_bart_layers(table, c.layers);
  add_logits_bias(table, c.decoder_vocab_size);
  table.ignored_names = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"};
  return table;
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

std::unique_ptr<Model> build_marian(const MarianConfig& c, ModelFiles files) {
  if (files.generation.empty()) files.generation = generation_json(c);
  const Weights& weights = files.weights;
  const double scale = c.scale_embedding ? std::sqrt(static_cast<double>(c.layers.d_model)) : 1.0;
  const AdditivePositions positions(
      sinusoidal_table(c.max_position_embeddings, c.layers.d_model, SinusoidLayout::halves));
  const auto embeddings = [&](const std::string& stack) -> InputEmbeddings {
    return {.tokens = {weights[stack + "embed_tokens.weight"], scale, c.pad_token_id},
            .positions = positions,
            .dropout = c.layers.dropout};
  };
  EncoderDecoderParts parts;
  parts.source = embeddings("model.encoder.");
  parts.decoder.embeddings = embeddings("model.decoder.");
  build_bart_layers(parts, c.layers, weights);
  parts.decoder.output = {weights["lm_head.weight"],
                          reshape(weights["final_logits_bias"], {c.decoder_vocab_size})};
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.decoder_vocab_size,
                                   .pad_id = c.pad_token_id,
                                   .eos_id = c.eos_token_id,
                                   .decoder_start_id = c.decoder_start_token_id,
                                   .max_positions = c.max_position_embeddings});
}

}  // namespace

Family marian_family() {
  Family marian = family<&MarianConfig::parse, marian_table, build_marian>({"marian"});
  marian.initializer_range = 0;  // Glorot and Bengio 2010, as the Marian toolkit does
  return marian;
}

}  // namespace heed
