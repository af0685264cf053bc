// What BERT and its descendants of the same shape (RoBERTa) share: the names of their settings, of the
// tensors of their body, and the parts made of these.
#pragma once

#include <string>
#include <vector>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/encoder.h"
#include "models/families/towers.h"

namespace heed {

/// A family's values of absent keys.
struct BertDefaults {
  std::int64_t padding = 0, token_types = 2;  // without token types, 0 is a value too
  std::int64_t d_model = 768, layers = 12, heads = 12, d_ff = 3072;
  double norm_eps = 1e-12;
  bool decodes = false;  ///< EncoderConfig::parse_common
};

/// Reads BERT's settings on top of EncoderConfig::parse_common, without checking for unknown keys. There is
/// no padding id where the config has null.
EncoderConfig parse_bert_settings(const Config& json, const BertDefaults& defaults);

/// Takes the embeddings (word, position, type) and their norm below `prefix`.
InputEmbeddings take_bert_embeddings(const EncoderConfig& config, const EncoderHeads& heads, WeightBuilder& w,
                                     const std::string& prefix);

/// The names of a layer's attention, where descendants have others.
struct BertLayerNames {
  std::string query = "attention.self.query", key = "attention.self.key", value = "attention.self.value",
              out = "attention.output.dense", norm = "attention.output.LayerNorm";
};

struct BertLayer {
  MultiHeadAttention attention;
  Norm attention_norm;
  FeedForward feed_forward;
  Norm feed_forward_norm;
  /// The layer with `self` as its self-attention.
  Layer with(Part self, double dropout) const;
};

struct BertBody {
  std::string prefix;  // of its names
  InputEmbeddings embeddings;
  std::vector<BertLayer> layers;
  std::string layer_name(std::int64_t layer) const {
    return prefix + "encoder.layer." + std::to_string(layer) + ".";
  }
};

/// Begins the walk and takes embeddings and layers.
BertBody take_bert_body(const EncoderConfig& config, const EncoderHeads& heads, WeightBuilder& w,
                        const BertLayerNames& names = {});
/// The body with plain self-attention.
EncoderParts bert_parts(const EncoderConfig& config, const BertBody& body);
/// The whole model with these heads, and a pooler without them.
std::unique_ptr<Model> build_bert_model(const EncoderConfig& config, const EncoderHeads& heads,
                                        WeightBuilder& w);

/// The model as a decoder with cross-attention, whose output map is that of the masked_lm head. `heads` makes
/// them for a prefix of all names, and `architecture` is transformers' class.
TextTower bert_text_tower(EncoderConfig config, const char* architecture,
                          std::function<EncoderHeads(const EncoderConfig&, const std::string& prefix)> heads);

/// RoBERTa's positions: they count the tokens that are not padding, from padding id + 1. Checks that the
/// config has a padding id and rows for at least one token, and sets max_positions.
void count_positions_from_padding(const Config& json, EncoderConfig& config);

/// RoBERTa's heads, whose body has names that begin with `prefix` + `body`.
EncoderHeads roberta_heads(const EncoderConfig& config, const std::string& body,
                           const std::string& prefix = "");

}  // namespace heed
