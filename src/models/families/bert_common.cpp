// Settings and parts that BERT and its descendants share.
#include "models/families/bert_common.h"

#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"

namespace heed {

EncoderConfig parse_bert_settings(const Config& json, const BertDefaults& defaults) {
  EncoderConfig c = EncoderConfig::parse_common(json, defaults.decodes);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.positive_integer("hidden_size", defaults.d_model);
  c.d_embedding = c.d_model;
  c.layers = layer_count(json, "num_hidden_layers", defaults.layers);
  c.heads = json.positive_integer("num_attention_heads", defaults.heads);
  c.d_ff = json.positive_integer("intermediate_size", defaults.d_ff);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  const bool may_lack_types = defaults.token_types == 0 && json.integer("type_vocab_size", 0) == 0;
  c.token_types = may_lack_types ? 0 : json.positive_integer("type_vocab_size", defaults.token_types);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", defaults.norm_eps);
  c.dropout = probability(json, "hidden_dropout_prob", 0.1);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.1);
  c.head_dropout = probability(json, "classifier_dropout", c.dropout);
  c.padding = padding_setting(json, defaults.padding, c.vocab_size);
  c.max_positions = c.positions;
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  return c;
}

InputEmbeddings take_bert_embeddings(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w,
                                     const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  const std::int64_t d_embedding = c.d_embedding;
  const auto rows = [&](const char* kind, std::int64_t count) {
    return TensorRow{.name = name + kind, .shape = {count, d_embedding}, .init = Init::embedding};
  };
  InputEmbeddings made{.tokens = {w.embedding(name + "word_embeddings.weight", c.vocab_size, d_embedding,
                                              c.padding, vocabulary_output(c, heads)),
                                  1.0, c.padding},
                       .dropout = c.dropout};
  if (c.positions > 0) {
    TensorRow positions = rows("position_embeddings.weight", c.positions);
    const bool from_padding = c.max_positions < c.positions;  // count_positions_from_padding
    if (from_padding) positions.padding = made.unpositioned = c.padding;
    if (c.sinusoidal) positions.fill = sinusoidal_fill(SinusoidLayout::interleaved);
    made.positions.emplace(w.tensor(positions), from_padding ? *c.padding + 1 : 0, positions.padding);
  }
  if (c.token_types > 0) made.token_types = w.tensor(rows("token_type_embeddings.weight", c.token_types));
  made.norm = w.layer_norm(name + "LayerNorm", d_embedding, c.norm_eps);
  return made;
}

BertBody take_bert_body(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w,
                        const BertLayerNames& names) {
  BertBody body{.prefix = begin_body(c, heads, w), .embeddings = {}, .layers = {}};
  body.embeddings = take_bert_embeddings(c, heads, w, body.prefix);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = body.layer_name(i);
    const auto linear = [&](const std::string& name) { return w.linear(file + name, c.d_model, c.d_model); };
    const auto norm = [&](const std::string& name) {
      return w.layer_norm(file + name, c.d_model, c.norm_eps);
    };
    body.layers.push_back({.attention = {.q = linear(names.query),
                                         .k = linear(names.key),
                                         .v = linear(names.value),
                                         .out = linear(names.out),
                                         .heads = c.heads,
                                         .kv_heads = c.heads,
                                         .dropout = c.attention_dropout},
                           .attention_norm = norm(names.norm),
                           .feed_forward = {w.linear(file + "intermediate.dense", c.d_ff, c.d_model),
                                            w.linear(file + "output.dense", c.d_model, c.d_ff), c.activation},
                           .feed_forward_norm = norm("output.LayerNorm")});
  }
  return body;
}

EncoderParts bert_parts(const EncoderConfig& c, const BertBody& body) {
  EncoderParts parts{.embeddings = body.embeddings};
  for (const BertLayer& layer : body.layers)
    parts.stack.layers.push_back(layer.with(SelfAttention{layer.attention}, c.dropout));
  return parts;
}

std::unique_ptr<Model> build_bert_model(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w) {
  EncoderParts parts = bert_parts(c, take_bert_body(c, heads, w));
  parts.pool = take_pooler(c, w, "pooler.dense");
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

TextTower bert_text_tower(
    EncoderConfig c, const char* architecture,
    std::function<EncoderHeads(const EncoderConfig&, const std::string& prefix)> heads) {
  c.architecture = architecture;
  const auto take = [c, heads](const std::string& prefix, std::int64_t d_memory, WeightBuilder& w) {
    const EncoderHeads own = heads(c, prefix);
    const BertBody body = take_bert_body(c, own, w);
    DecoderParts parts;
    parts.embeddings = body.embeddings;
    for (std::size_t i = 0; i < body.layers.size(); ++i) {
      const BertLayer& layer = body.layers[i];
      const std::string file = body.layer_name(static_cast<std::int64_t>(i)) + "crossattention.";
      const auto read = [&](const char* name) { return w.linear(file + name, c.d_model, d_memory); };
      const CrossAttention cross{{.q = w.linear(file + "self.query", c.d_model, c.d_model),
                                  .k = read("self.key"),
                                  .v = read("self.value"),
                                  .out = w.linear(file + "output.dense", c.d_model, c.d_model),
                                  .heads = c.heads,
                                  .kv_heads = c.heads,
                                  .dropout = c.attention_dropout}};
      const Norm norm = w.layer_norm(file + "output.LayerNorm", c.d_model, c.norm_eps);
      Layer whole = layer.with(SelfAttention{layer.attention}, c.dropout);
      whole.steps.insert(whole.steps.begin() + 1, post_norm("cross_attn", norm, cross, c.dropout));
      parts.stack.layers.push_back(std::move(whole));
    }
    const std::optional<EncoderHeadParts> head = take_head(c, own, w);
    parts.output_transform = {head->dense, head->activation, head->norm};
    parts.output = head->output;
    w.set_prefix("");
    return parts;
  };
  return {.vocab_size = c.vocab_size,
          .d_model = c.d_model,
          .max_positions = *c.max_positions,
          .take = take,
          .pad = c.padding};
}

Layer BertLayer::with(Part self, double dropout) const {
  return {{post_norm("self_attn", attention_norm, std::move(self), dropout),
           post_norm("feed_forward", feed_forward_norm, feed_forward, dropout)}};
}

void count_positions_from_padding(const Config& json, EncoderConfig& c) {
  if (!c.padding) json.fail("pad_token_id", "an id, as positions are counted from it");
  if (c.positions <= *c.padding + 1) {
    json.fail("max_position_embeddings",
              std::string("more than pad_token_id + 1 = ") + std::to_string(*c.padding + 1));
  }
  c.max_positions = c.positions - *c.padding - 1;
}

EncoderHeads roberta_heads(const EncoderConfig& c, const std::string& body, const std::string& prefix) {
  const std::string lm = prefix + "lm_head.";
  return {.prefix = prefix + body,
          .masked_lm = {.dense = lm + "dense",
                        .activation = Activation::gelu,  // whatever the layers have
                        .norm = lm + "layer_norm",
                        .output = lm + "decoder"},
          .output_bias = lm + "bias",
          .sequence = {.first_dropout = c.head_dropout,
                       .dense = "classifier.dense",
                       .activation = Activation::tanh,
                       .dropout = c.head_dropout,
                       .output = "classifier.out_proj"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .unused = {prefix + body + "pooler.dense"}};
}

}  // namespace heed
