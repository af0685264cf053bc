// A Transformer of heed's own, whose attention, positions and norms are settings: the architectures of the
// literature beside each other, for models that heed trains. No other tool has this model_type, so none takes
// such a model for something else. Vaswani et al. 2017; Xiong et al. 2020 (norms); Child et al. 2019 and
// Katharopoulos et al. 2020 (attention). Cross-attention is always full.
#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/encoder_decoder.h"
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

struct TransformerConfig {
  std::string attention, positions;
  bool encodes = false, decodes = true, norm_first = true, tied = true, scale_embedding = false;
  std::int64_t vocab_size = 0, d_model = 0, layers = 0, heads = 0, d_ff = 0, max_positions = 0, window = 0;
  std::optional<SparsePattern> sparse;
  Activation activation = Activation::none;
  double eps = 0, dropout = 0, attention_dropout = 0, activation_dropout = 0, rope_theta = 0;
  std::optional<std::int64_t> pad;
  std::int64_t eos = 0, start = 0;
  EncoderConfig encoder;  // of an encoder: its head

  static TransformerConfig parse(const Config& json);

 private:
  void parse_attention(const Config& json);
  void parse_head(const Config& json);
};

// The value under `key`, which must be one of the choices; the first is the default.
std::string choice(const Config& json, const char* key, const std::vector<std::string>& choices) {
  const std::string value = json.string(key, choices.front());
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  json.fail(key, "one of " + joined(choices));
}

void TransformerConfig::parse_attention(const Config& json) {
  attention = choice(json, "attention", {"full", "window", "strided", "fixed", "linear"});
  positions = choice(json, "position_embedding_type", {"sinusoidal", "learned", "rotary", "alibi", "none"});
  attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  const bool is_sparse = attention == "strided" || attention == "fixed", is_linear = attention == "linear";
  if (attention == "window") window = json.required_positive_integer("attention_window");
  if (is_sparse) {
    if (encodes)
      json.fail("attention", "full, window or linear with an encoder (strided and fixed are causal)");
    sparse = {attention == "fixed" ? SparseKind::fixed : SparseKind::strided,
              json.required_positive_integer("attention_stride")};
    if (attention == "fixed") sparse->summary = json.positive_integer("attention_summary", 1);
    if (sparse->summary > sparse->stride) json.fail("attention_summary", "at most attention_stride");
  }
  if ((is_sparse || is_linear) && positions == "alibi")
    json.fail("position_embedding_type", "another than alibi with attention " + attention);
  if (is_linear && positions == "rotary")
    json.fail("position_embedding_type", "another than rotary with attention linear");
  if ((is_sparse || is_linear) && attention_dropout > 0)
    json.fail("attention_probs_dropout_prob", "0 with attention " + attention);
  if (positions != "rotary") return;
  rope_theta = positive_number(json, "rope_theta", 10000);
  if (d_model / heads % 2 != 0)
    json.fail("num_attention_heads", "heads of an even dimension with rotary positions");
}

void TransformerConfig::parse_head(const Config& json) {
  // The positions are this family's own setting.
  encoder = EncoderConfig::parse_common(json.with(R"({"position_embedding_type": null})"));
  if (json.strings("architectures").empty()) {
    encoder.head = EncoderHead::masked_lm;
    encoder.architecture = "an encoder that predicts masked tokens";
  }
  encoder.vocab_size = vocab_size;
  encoder.d_model = encoder.d_embedding = d_model;
  encoder.norm_eps = eps;
  encoder.tied = tied;
  encoder.padding = pad;
  encoder.sequence_input = SequenceInput::mean;  // with a window, the first token does not see the whole text
  if (positions == "learned" || positions == "sinusoidal") encoder.max_positions = max_positions;
}

TransformerConfig TransformerConfig::parse(const Config& json) {
  TransformerConfig c;
  const std::string architecture = choice(json, "architecture", {"decoder", "encoder", "encoder-decoder"});
  c.encodes = architecture != "decoder";
  c.decodes = architecture != "encoder";
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.required_positive_integer("hidden_size");
  c.layers = layer_count(json, "num_hidden_layers", 6);
  c.heads = json.required_positive_integer("num_attention_heads");
  c.d_ff = json.positive_integer("intermediate_size", 4 * c.d_model);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "relu"));
  c.norm_first = choice(json, "norm_placement", {"pre", "post"}) == "pre";
  c.eps = norm_epsilon(json, "layer_norm_eps", 1e-5);
  c.dropout = probability(json, "hidden_dropout_prob", 0.0);
  c.activation_dropout = probability(json, "activation_dropout_prob", 0.0);
  c.max_positions = computed_positions(json);
  c.tied = json.boolean("tie_word_embeddings", true);
  c.scale_embedding = json.boolean("scale_embedding", false);
  json.ignore({"initializer_range", "is_encoder_decoder"});
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  c.parse_attention(json);
  c.pad = padding_setting(json, std::nullopt, c.vocab_size);
  if (c.encodes && c.decodes) {
    if (!c.pad) json.fail("pad_token_id", "an id in an encoder-decoder");
    c.eos = single_id(json, "eos_token_id", 0);
    c.start = json.integer("decoder_start_token_id", *c.pad);
    check_id(json, "eos_token_id", c.eos, c.vocab_size);
    check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  }
  if (!c.decodes) c.parse_head(json);
  return c;
}

EncoderHeads transformer_heads(const TransformerConfig& c) {
  return {.prefix = "",
          .masked_lm = {.output = "lm_head"},
          .sequence = {.dropout = c.dropout, .output = "classifier"},
          .token = {.dropout = c.dropout, .output = "classifier"},
          .output_has_bias = false};
}

// Takes both stacks of a model.
class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerConfig& config, WeightBuilder& w) : c_(config), w_(w) {
    if (c_.positions == "rotary")
      rotary_ = std::make_shared<RotaryPositions>(
          RotaryOptions{.dim = c_.d_model / c_.heads, .theta = c_.rope_theta});
    if (c_.positions == "alibi") alibi_ = std::make_shared<AlibiPositions>(alibi_slopes(c_.heads));
  }

  // The inputs and the layers of a stack.
  void take(Stack& stack, InputEmbeddings& embeddings, const Weight& tokens, bool crosses) const {
    const double scale = c_.scale_embedding ? std::sqrt(static_cast<double>(c_.d_model)) : 1.0;
    embeddings = {.tokens = {tokens, scale, c_.pad}, .dropout = c_.dropout};
    if (c_.positions == "learned")
      embeddings.positions.emplace(w_.tensor(
          {.name = stack.name + ".embed_positions.weight", .shape = {c_.max_positions, c_.d_model}}));
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      const std::string file = stack.name + ".layers." + std::to_string(i) + ".";
      Layer layer{{step("self_attn", file, self_attention(file + "self_attn"))}};
      if (crosses)
        layer.steps.push_back(step("cross_attn", file, CrossAttention{attention(file + "cross_attn")}));
      layer.steps.push_back(step("feed_forward", file,
                                 FeedForward{w_.linear(file + "feed_forward.up", c_.d_ff, c_.d_model),
                                             w_.linear(file + "feed_forward.down", c_.d_model, c_.d_ff),
                                             c_.activation, c_.activation_dropout}));
      stack.layers.push_back(std::move(layer));
    }
    if (c_.norm_first) stack.final_norm = w_.layer_norm(stack.name + ".final_norm", c_.d_model, c_.eps);
  }

 private:
  ResidualStep step(const std::string& name, const std::string& file, Part part) const {
    Norm norm = w_.layer_norm(file + name + "_norm", c_.d_model, c_.eps);
    return (c_.norm_first ? pre_norm : post_norm)(name, std::move(norm), std::move(part), c_.dropout);
  }
  MultiHeadAttention attention(const std::string& file) const {
    const auto linear = [&](const char* name) { return w_.linear(file + name, c_.d_model, c_.d_model); };
    return {.q = linear(".q_proj"),
            .k = linear(".k_proj"),
            .v = linear(".v_proj"),
            .out = linear(".out_proj"),
            .heads = c_.heads,
            .kv_heads = c_.heads,
            .dropout = c_.attention_dropout};
  }
  Part self_attention(const std::string& file) const {
    MultiHeadAttention self = attention(file);
    if (c_.attention == "linear") return LinearSelfAttention{self};
    self.rotary = rotary_;
    self.bias = alibi_;
    self.window = c_.window;
    self.sparse = c_.sparse;
    return SelfAttention{self};
  }

  const TransformerConfig& c_;
  WeightBuilder& w_;
  std::shared_ptr<const RotaryPositions> rotary_;
  std::shared_ptr<const ScoreBias> alibi_;
};

// Ends the walk of tensors; sinusoidal positions are computed once the sizes are those of the file.
ModelContents finish(const TransformerConfig& c, WeightBuilder& w,
                     const std::vector<InputEmbeddings*>& inputs) {
  ModelContents files = w.finish();
  if (c.positions != "sinusoidal") return files;
  const AdditivePositions positions(
      sinusoidal_table(c.max_positions, c.d_model, SinusoidLayout::interleaved));
  for (InputEmbeddings* input : inputs) input->positions = positions;
  return files;
}

std::unique_ptr<Model> build_transformer(const TransformerConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = transformer_heads(c);
  const OutputMap output =
      c.decodes ? OutputMap{"lm_head.weight", c.tied} : vocabulary_output(c.encoder, heads);
  TensorRow words{.name = "embed_tokens.weight", .shape = {c.vocab_size, c.d_model}};
  if (!c.encodes || !c.decodes) words.target = AdapterTarget::token_table;
  if (output.tied) words.tied.push_back(output.name);
  const Weight tokens = w.take(words);
  const TransformerBuilder build(c, w);
  if (!c.decodes) {
    EncoderParts parts;
    build.take(parts.stack, parts.embeddings, tokens, false);
    parts.head = take_head(c.encoder, heads, w);
    ModelContents files = finish(c, w, {&parts.embeddings});
    return assemble_encoder(c.encoder, std::move(files), std::move(parts));
  }
  EncoderDecoderParts parts;
  if (c.encodes) build.take(parts.encoder, parts.source, tokens, false);
  build.take(parts.decoder.stack, parts.decoder.embeddings, tokens, c.encodes);
  parts.decoder.output.weight = w.output(output, c.vocab_size, c.d_model);
  ModelContents files = finish(c, w, {&parts.source, &parts.decoder.embeddings});
  const bool additive = c.positions == "learned" || c.positions == "sinusoidal";
  const std::optional<std::int64_t> limit = additive ? std::optional(c.max_positions) : std::nullopt;
  if (!c.encodes) {
    return assemble_decoder(std::move(files), std::move(parts.decoder),
                            {.takes_position_ids = additive || c.positions == "rotary",
                             .max_positions = limit,
                             .trained_positions = c.max_positions});
  }
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = *c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = limit});
}

}  // namespace

Family transformer_family() {
  return family<&TransformerConfig::parse, build_transformer>({"heed_transformer"}, {"HeedTransformer"});
}

}  // namespace heed
