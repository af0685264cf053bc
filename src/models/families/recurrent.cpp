// heed's own family of recurrent encoder-decoders: its config, and the model built from parts. Tensors have
// the names and shapes of torch.nn.LSTM and torch.nn.GRU, as `encoder.rnn` and `decoder.rnn`. No other tool
// knows the model_type.
#include "models/families/recurrent_common.h"

#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/families.h"

namespace heed {
namespace {

enum class RecurrentAttention { none, additive, dot, general, concat };

struct RecurrentConfig {
  RecurrentCell cell = RecurrentCell::lstm;
  RecurrentAttention attention = RecurrentAttention::none;
  bool input_feeding = false, bidirectional = false, shared = false, tied = false;
  std::int64_t vocab_size = 0, embedding_size = 0, hidden_size = 0, attention_size = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  double dropout = 0.0, initializer_range = 0.0;
  std::int64_t pad = 0, eos = 0, start = 0;

  static RecurrentConfig parse(const Config& json);
  bool is_additive() const {
    return attention == RecurrentAttention::additive || attention == RecurrentAttention::concat;
  }
  FedBack fed_back() const {
    if (attention == RecurrentAttention::additive) return FedBack::context;
    return input_feeding ? FedBack::output : FedBack::nothing;
  }
  std::int64_t direction_size() const { return bidirectional ? hidden_size / 2 : hidden_size; }
};

// The index of the name under `key`.
std::size_t choice(const Config& json, const char* key, const char* default_value,
                   const std::vector<std::string>& names) {
  const std::string given = json.string(key, default_value);
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == given) return i;
    list += (i > 0 ? ", " : "one of ") + names[i];
  }
  json.fail(key, list);
}

RecurrentConfig RecurrentConfig::parse(const Config& json) {
  RecurrentConfig c;
  c.cell = static_cast<RecurrentCell>(choice(json, "cell", "lstm", {"lstm", "gru"}));
  c.attention = static_cast<RecurrentAttention>(
      choice(json, "attention", "general", {"none", "additive", "dot", "general", "concat"}));
  c.input_feeding = json.boolean("input_feeding", false);
  c.bidirectional = json.boolean("bidirectional", true);
  c.shared = json.boolean("share_encoder_decoder_embeddings", true);
  c.tied = json.boolean("tie_word_embeddings", true);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.hidden_size = json.required_positive_integer("hidden_size");
  c.embedding_size = json.positive_integer("embedding_size", c.hidden_size);
  c.encoder_layers = layer_count(json, "encoder_layers", 2);
  c.decoder_layers = layer_count(json, "decoder_layers", c.encoder_layers);
  c.dropout = probability(json, "dropout", 0.1);
  c.initializer_range = positive_number(json, "initializer_range", 0.08);
  c.pad = json.integer("pad_token_id", 0);
  c.eos = single_id(json, "eos_token_id", 0);
  c.start = json.integer("decoder_start_token_id", c.pad);
  if (c.is_additive()) {
    c.attention_size = json.positive_integer("attention_size", c.hidden_size);
  } else {
    json.ignore({"attention_size"});
  }
  const bool feeds = c.attention != RecurrentAttention::none && c.attention != RecurrentAttention::additive;
  if (c.input_feeding && !feeds)
    json.fail("input_feeding",
              "false without attention, or with additive attention, which feeds its context");
  if (c.bidirectional && c.hidden_size % 2 != 0)
    json.fail("hidden_size", "an even number, half of it for each direction of a bidirectional encoder");
  if (c.decoder_layers > c.encoder_layers)
    json.fail("decoder_layers", "at most encoder_layers, as each starts from the state of one of them");
  if (c.tied && c.embedding_size != c.hidden_size)
    json.fail("embedding_size", "hidden_size, as tie_word_embeddings ties the output to the embedding");
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  json.ignore({"is_encoder_decoder"});
  return c;
}

class RecurrentBuilder {
 public:
  RecurrentBuilder(const RecurrentConfig& config, WeightBuilder& w) : c_(config), w_(w) {}

  const Weight& take(const std::string& name, const Shape& shape, std::vector<std::string> tied = {}) const {
    return w_.take({.name = name,
                    .shape = shape,
                    .init = Init::uniform,
                    .tied = std::move(tied),
                    .range = c_.initializer_range});
  }
  // The layer whose names begin with `rnn` and end with `end`.
  RecurrentLayer layer(const std::string& rnn, const std::string& end, std::int64_t in,
                       std::int64_t hidden) const {
    const std::int64_t out = gates_of(c_.cell) * hidden;
    return {c_.cell, take(rnn + "weight_ih" + end, {out, in}), take(rnn + "weight_hh" + end, {out, hidden}),
            take(rnn + "bias_ih" + end, {out}).tensor(), take(rnn + "bias_hh" + end, {out}).tensor()};
  }
  SourceAttention attention() const {
    const bool general = c_.attention == RecurrentAttention::general;
    SourceAttention made{general ? AlignmentScore::general : AlignmentScore::dot, {}, {}, {}};
    if (c_.is_additive()) {
      made.score = AlignmentScore::additive;
      made.query.weight = take("decoder.attention.query.weight", {c_.attention_size, c_.hidden_size});
      made.v = take("decoder.attention.v", {1, c_.attention_size}).tensor();
    }
    if (c_.is_additive() || general)
      made.key.weight = take("decoder.attention.key.weight",
                             {c_.is_additive() ? c_.attention_size : c_.hidden_size, c_.hidden_size});
    return made;
  }

 private:
  const RecurrentConfig& c_;
  WeightBuilder& w_;
};

std::unique_ptr<Model> build_recurrent(const RecurrentConfig& c, WeightBuilder& w) {
  const RecurrentBuilder build(c, w);
  const std::string source = "encoder.embed_tokens.weight", target = "decoder.embed_tokens.weight";
  const Shape table{c.vocab_size, c.embedding_size};
  const std::string output = "output.weight";
  std::vector<std::string> tied;
  if (c.tied) tied.push_back(output);
  if (c.shared) tied.insert(tied.begin(), target);
  build.take(source, table, c.shared ? tied : std::vector<std::string>());
  if (!c.shared) build.take(target, table, tied);
  RecurrentParts parts;
  parts.encoder.tokens = {w[source], 1.0, c.pad};
  parts.decoder.tokens = {w[target], 1.0, c.pad};
  parts.encoder.dropout = parts.decoder.dropout = c.dropout;
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::int64_t in = i == 0 ? c.embedding_size : c.hidden_size;
    const std::string end = "_l" + std::to_string(i);
    RecurrentEncoderLayer layer{build.layer("encoder.rnn.", end, in, c.direction_size())};
    if (c.bidirectional)
      layer.backward = build.layer("encoder.rnn.", end + "_reverse", in, c.direction_size());
    parts.encoder.layers.push_back(std::move(layer));
  }
  const std::int64_t fed = c.fed_back() == FedBack::nothing ? 0 : c.hidden_size;
  for (std::int64_t i = 0; i < c.decoder_layers; ++i)
    parts.decoder.layers.push_back(build.layer("decoder.rnn.", "_l" + std::to_string(i),
                                               i == 0 ? c.embedding_size + fed : c.hidden_size,
                                               c.hidden_size));
  parts.decoder.fed_back = c.fed_back();
  if (c.attention != RecurrentAttention::none) {
    parts.decoder.attention = build.attention();
    parts.decoder.combine.weight = build.take("decoder.combine.weight", {c.hidden_size, 2 * c.hidden_size});
  }
  parts.decoder.output.weight = c.tied ? w[output] : build.take(output, {c.vocab_size, c.hidden_size});
  return assemble_recurrent(
      w.finish(), std::move(parts),
      {.vocab_size = c.vocab_size, .pad_id = c.pad, .eos_id = c.eos, .decoder_start_id = c.start});
}

}  // namespace

Family recurrent_family() { return family<&RecurrentConfig::parse, build_recurrent>({"heed_recurrent"}); }

}  // namespace heed
