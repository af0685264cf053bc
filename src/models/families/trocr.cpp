// The decoder of TrOCR (Li et al. 2023, "TrOCR: Transformer-based optical character recognition"): BART's
// layers, whose cross-attention may read states of another width.
#include <cmath>

#include "models/config_fields.h"
#include "models/families/bart_common.h"
#include "models/families/towers.h"

namespace heed {
namespace {

constexpr std::int64_t kTrocrPositionOffset = 2;  // the first rows of the table are never used

struct TrocrConfig {
  BartLayers layers;
  std::int64_t vocab_size = 0, positions = 0, pad = 0;
  double embedding_scale = 1.0;
  bool learned_positions = true, norms_embeddings = true, tied = true;

  static TrocrConfig parse(const Config& json);
};

TrocrConfig TrocrConfig::parse(const Config& json) {
  TrocrConfig c;
  BartLayers& l = c.layers;
  const char* heads = common_or_own(json, "num_attention_heads", "decoder_attention_heads");
  l.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 1024);
  l.decoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "decoder_layers"), 12);
  l.decoder_heads = json.positive_integer(heads, 16);
  l.decoder_d_ff = json.positive_integer("decoder_ffn_dim", 4096);
  l.activation = activation_setting(json, "activation_function", json.string("activation_function", "gelu"));
  l.dropout = probability(json, "dropout", 0.1);
  l.attention_dropout = probability(json, "attention_dropout", 0.0);
  l.activation_dropout = probability(json, "activation_dropout", 0.0);
  check_heads(json, heads, l.d_model, l.decoder_heads);
  c.vocab_size = json.positive_integer("vocab_size", 50265);
  c.learned_positions = json.boolean("use_learned_position_embeddings", true);
  c.positions = c.learned_positions ? json.positive_integer("max_position_embeddings", 512)
                                    : computed_positions(json, 512);
  c.pad = json.integer("pad_token_id", 1);
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  if (json.boolean("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(l.d_model));
  c.norms_embeddings = json.boolean("layernorm_embedding", true);
  c.tied = json.boolean("tie_word_embeddings", true);
  json.ignore({"decoder_layerdrop", "init_std", "is_decoder", "is_encoder_decoder"});
  return c;
}

DecoderParts take_trocr(TrocrConfig c, const std::string& prefix, std::int64_t d_memory, WeightBuilder& w) {
  const std::string file = prefix + "model.decoder.";
  const std::int64_t d = c.layers.d_model;
  const OutputMap output{prefix + "output_projection.weight", c.tied};
  c.layers.d_memory = d_memory;
  DecoderParts parts;
  InputEmbeddings& text = parts.embeddings;
  text.tokens = {w.embedding(file + "embed_tokens.weight", c.vocab_size, d, c.pad, output), c.embedding_scale,
                 c.pad};
  text.dropout = c.layers.dropout;
  if (c.learned_positions) {
    text.positions = AdditivePositions(w.tensor({.name = file + "embed_positions.weight",
                                                 .shape = {c.positions + kTrocrPositionOffset, d},
                                                 .init = Init::embedding}),
                                       kTrocrPositionOffset);
  } else {
    text.unpositioned = c.pad;
    w.ignore(file + "embed_positions._float_tensor");  // which early files have, of no use
  }
  if (c.norms_embeddings) text.norm = w.layer_norm(file + "layernorm_embedding", d, kBartNormEps);
  parts.stack.layers = take_bart_decoder(c.layers, file, w);
  parts.output.weight = w.output(output, c.vocab_size, d);
  return parts;
}

}  // namespace

TextTower trocr_tower(const Config& json) {
  const TrocrConfig c = TrocrConfig::parse(json);
  TextTower tower{.vocab_size = c.vocab_size,
                  .d_model = c.layers.d_model,
                  .max_positions = c.positions,
                  .take = [c](const std::string& prefix, std::int64_t d_memory,
                              WeightBuilder& w) { return take_trocr(c, prefix, d_memory, w); },
                  .reads_any_width = true,
                  .pad = 1,
                  .eos = 2,
                  .start = 2};
  if (!c.learned_positions) tower.computed_from_padding = c.pad;
  return tower;
}

}  // namespace heed
