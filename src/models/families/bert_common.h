// What BERT and its descendants of the same shape (RoBERTa) share: the names of their settings, of the
// tensors of their body, and the parts made of these.
#pragma once

#include <functional>
#include <string>

#include "heed/nn/attention.h"
#include "models/encoder.h"
#include "models/encoder_heads.h"

namespace heed {

/// A family's values of absent keys.
struct BertDefaults {
  std::int64_t padding = 0, token_types = 2;  // without token types, 0 is a value too
  std::int64_t d_model = 768, layers = 12, heads = 12, d_ff = 3072;
  double norm_eps = 1e-12;
};

/// Reads BERT's settings on top of EncoderConfig::parse_common, without checking for unknown keys. There is
/// no padding id where the config has null.
EncoderConfig parse_bert_settings(const Config& json, const BertDefaults& defaults);

/// The embeddings (word, position, type) and their norm below `prefix`.
void add_bert_embeddings(TensorTable& table, const EncoderConfig& config, const std::string& prefix);
InputEmbeddings bert_embeddings(const EncoderConfig& config, const Weights& weights,
                                const std::string& prefix);

/// The names of a layer's attention, where descendants have others.
struct BertLayerNames {
  std::string query = "attention.self.query", key = "attention.self.key", value = "attention.self.value",
              out = "attention.output.dense", norm = "attention.output.LayerNorm";
};

/// The self-attention of the layer whose names begin with `file`, as a part.
using BertAttention = std::function<Part(MultiHeadAttention attention, const std::string& file)>;

/// Embeddings, layers and, with `pooler`, the pooler, below `prefix`.
void add_bert_body(TensorTable& table, const EncoderConfig& config, const std::string& prefix, bool pooler,
                   const BertLayerNames& names = {});
/// `self` makes a layer's part of its attention; SelfAttention if there is none.
EncoderParts bert_body(const EncoderConfig& config, const Weights& weights, const std::string& prefix,
                       const BertLayerNames& names = {}, const BertAttention& self = {});

/// The layer of number `layer` below `prefix`.
std::string bert_layer(const std::string& prefix, std::int64_t layer);

/// RoBERTa's positions: they count the tokens that are not padding, from padding id + 1. Checks that the
/// config has a padding id and rows for at least one token, and sets max_positions.
void count_positions_from_padding(const Config& json, EncoderConfig& config);
void embed_positions_from_padding(const EncoderConfig& config, const Weights& weights,
                                  const std::string& prefix, InputEmbeddings& embeddings);

/// RoBERTa's heads, whose body has names that begin with `prefix`.
EncoderHeads roberta_heads(const EncoderConfig& config, const std::string& prefix);

}  // namespace heed
