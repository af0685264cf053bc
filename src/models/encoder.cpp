// Forward pass and loss of assembled encoders.
#include "models/encoder.h"

#include <algorithm>
#include <set>

#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "models/assembled.h"
#include "models/labels.h"
#include "models/named_tensors.h"
#include "models/packed_rows.h"
#include "models/steering.h"

namespace heed {
namespace {

// The attention's options; none where nothing is hidden, which is the faster way.
AttentionOptions visible(const Tensor& mask) {
  if (!mask.defined()) return {};
  const std::int64_t* seen = mask.data<std::int64_t>();
  const bool all = std::all_of(seen, seen + mask.numel(), [](std::int64_t m) { return m != 0; });
  return all ? AttentionOptions{} : masked_keys(mask);
}

Tensor token_of(const Tensor& hidden, std::int64_t position) {
  return reshape(slice(hidden, 1, position, position + 1), {hidden.size(0), hidden.size(2)});
}
Tensor first_token(const Tensor& hidden) { return token_of(hidden, 0); }

// The mean over the tokens that the mask shows, or over all without one; [B, D].
Tensor mean_of_tokens(const Tensor& hidden, const Tensor& mask) {
  const std::int64_t batch = hidden.size(0), time = hidden.size(1), d_model = hidden.size(2);
  const Tensor shown = mask.defined() ? mask.to(DType::boolean).to(hidden.dtype())
                                      : Tensor::full({batch, time}, 1.0, hidden.dtype());
  // A matrix product, whose sums do not change with padding at the end.
  const Tensor total = matmul(reshape(shown, {batch, 1, time}), hidden);
  return reshape(total, {batch, d_model}) / sum(shown, 1, true);
}

Tensor mean_of_first_two(const Tensor& hidden) { return mean_of_tokens(slice(hidden, 1, 0, 2), {}); }

class AssembledEncoder final : public Assembled<EncoderModel> {
 public:
  AssembledEncoder(EncoderConfig config, ModelContents files, EncoderParts parts)
      : Assembled(std::move(files)), config_(std::move(config)), parts_(std::move(parts)) {}

  std::optional<std::int64_t> max_positions() const override { return config_.max_positions; }
  std::optional<std::int64_t> trained_positions() const override {
    return config_.trained_positions ? config_.trained_positions : config_.max_positions;
  }
  InputSpec input() const override { return parts_.embeddings.input(); }
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  EncoderHead head() const override { return config_.head; }
  std::string stack_name() const override { return parts_.stack.name; }
  const Stack* stack_named(const std::string& name) const override {
    return name == parts_.stack.name ? &parts_.stack : nullptr;
  }
  Tensor token_vectors(const std::string& name) const override {
    return name == parts_.stack.name ? parts_.embeddings.token_vectors() : Tensor();
  }
  void steer(const std::string& stack, std::int64_t layer, const Tensor& vector) override {
    steer_stack({&parts_.stack}, stack, layer, vector);
  }
  const std::vector<std::string>& labels() const override { return config_.labels; }
  std::optional<LabelProblem> problem() const override { return config_.problem; }
  std::optional<Activation> score_activation() const override { return config_.score_activation; }
  std::int64_t hidden_size() const override { return config_.d_model; }
  std::int64_t type_vocab_size() const override { return config_.token_types; }
  std::int64_t pad_id() const override { return config_.padding.value_or(0); }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor encode(const ModelInput& input, Context& context) const override {
    return run(input, context).hidden;
  }
  bool head_reads_first_token() const override {
    return config_.head == EncoderHead::sequence && config_.sequence_input == SequenceInput::first_token &&
           !parts_.head->second_output;
  }
  bool is_causal() const override { return parts_.causal; }
  std::int64_t vector_size() const override;
  using EncoderModel::vectors;
  Tensor vectors(const Tensor& hidden, const ModelInput& input, Context& context) const override;
  std::optional<std::int64_t> padded_length() const override {
    return parts_.pads_texts ? config_.max_positions : std::nullopt;
  }
  Tensor predict(const Tensor& hidden, const Tensor& mask, Context& context) const override;
  Tensor loss(const ModelInput& input, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override;

 private:
  struct Encoded {
    Tensor hidden, mask;  // [B, T, D], and i64 [B, T] or undefined
  };
  Encoded run(const ModelInput& input, Context& context) const;
  const EncoderHeadParts& head_parts() const {
    if (!parts_.head) throw Error("predict: expected a model with a head, got " + config_.architecture);
    return *parts_.head;
  }
  Tensor head_input(const Tensor& hidden, const Tensor& mask) const {
    if (config_.head != EncoderHead::sequence) return hidden;
    const SequenceInput kind = config_.sequence_input;
    if (kind == SequenceInput::first_token) return first_token(hidden);
    if (kind == SequenceInput::first_two) return mean_of_first_two(hidden);
    if (kind == SequenceInput::mean) return mean_of_tokens(hidden, mask);
    const Tensor rest = slice(hidden, 1, config_.skipped, hidden.size(1));
    return concat({first_token(hidden), mean_of_tokens(rest, {})}, 1);
  }
  void add_loss(const TensorMap& inputs, const Tensor& mask, TensorMap& outputs) const;

  EncoderConfig config_;
  EncoderParts parts_;
};

AssembledEncoder::Encoded AssembledEncoder::run(const ModelInput& input, Context& context) const {
  const Tensor& first = input.first();
  if (!first.defined() || first.size(0) == 0 || first.size(1) == 0)
    throw Error("encode: expected at least one row and one token, got " + first.str());
  const Tensor shown = parts_.embeddings.token_mask(input);
  const Tensor packed = encode_packed(parts_.embeddings, parts_.stack, input, shown, parts_.causal,
                                      !input.skips_padding, context);
  if (packed.defined()) return {packed, shown};
  Pass pass(context);
  pass.self = visible(shown);
  pass.self.causal = parts_.causal;
  pass.read = input.read;
  pass.name = parts_.stack.name;
  Tensor x = parts_.embeddings(input, pass);
  if (parts_.embeddings.frontend) parts_.embeddings.frontend->prepare(input.values, pass);
  if (const Tensor& mask = pass.self.key_mask; parts_.clears_padding && mask.defined())
    x = x * unsqueeze(mask, 2).to(x.dtype());
  return {apply_dropout(parts_.stack(x, pass), parts_.stack_dropout, context), shown};
}

std::int64_t AssembledEncoder::vector_size() const {
  if (!parts_.pools_vectors) return 0;
  return parts_.projection ? parts_.projection->weight.size(0) : config_.d_model;
}

Tensor AssembledEncoder::vectors(const Tensor& hidden, const ModelInput& input, Context& context) const {
  if (!parts_.pools_vectors) return EncoderModel::vectors(hidden, input, context);
  const Tensor pooled = parts_.pool(hidden, input, context);
  return parts_.projection ? (*parts_.projection)(pooled) : pooled;
}

Tensor AssembledEncoder::predict(const Tensor& hidden, const Tensor& mask, Context& context) const {
  const EncoderHeadParts& head = head_parts();
  Tensor logits = head.output(head.features(head_input(hidden, mask), context));
  if (head.second_output) logits = (logits + (*head.second_output)(token_of(hidden, 1))) * 0.5;
  tap_logits(context, logits);
  return logits;
}

// The rows of hidden [B, T, D] whose label counts, and those labels.
std::pair<Tensor, Tensor> labeled_rows(const Tensor& hidden, const Tensor& labels, std::int64_t ignored) {
  const std::int64_t* label = labels.data<std::int64_t>();
  std::vector<std::int64_t> rows, kept;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] == ignored) continue;
    rows.push_back(i);
    kept.push_back(label[i]);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor flat = reshape(hidden, {labels.numel(), hidden.size(2)});
  return {gather(flat, 0, Tensor::from(rows, {count})), Tensor::from(kept, {count})};
}

Tensor AssembledEncoder::loss(const ModelInput& input, const Tensor& labels,
                              const CrossEntropyOptions& options, Context& context) const {
  const EncoderHeadParts& head = head_parts();
  const auto [hidden, mask] = run(input, context);
  if (config_.head == EncoderHead::ctc)
    return speech_loss(predict(hidden, {}, context), labels, mask, config_.ctc, options);
  if (config_.head == EncoderHead::span) return span_loss(predict(hidden, {}, context), labels, options);
  if (config_.head == EncoderHead::sequence)
    return sequence_loss(predict(hidden, mask, context), labels, config_.problem, options);
  const Tensor wanted = labels_as(labels, DType::i64, {hidden.size(0), hidden.size(1)}, "labels");
  // Few tokens of a masked batch are predicted, so only these pass the head.
  const auto [rows, targets] = labeled_rows(hidden, wanted, options.ignore_index);
  return head.output.cross_entropy(head.features(rows, context), targets, options);
}

void AssembledEncoder::add_loss(const TensorMap& inputs, const Tensor& mask, TensorMap& outputs) const {
  const CrossEntropyOptions options;
  const bool span = config_.head == EncoderHead::span;
  if (!inputs.contains(span ? "start_positions" : "labels")) return;
  if (config_.head == EncoderHead::none)
    throw Error("forward: labels: expected none, as " + config_.architecture + " has no head, got some");
  const Tensor& logits = outputs.at(span ? "start_logits" : "logits");
  if (span) {
    const Shape rows{logits.size(0)};
    const auto positions = [&](const char* name) {
      return labels_as(required_input(inputs, name), DType::i64, rows, name);
    };
    outputs["loss"] =
        span_loss(stack({logits, outputs.at("end_logits")}, 2),
                  stack({positions("start_positions"), positions("end_positions")}, 1), options);
  } else if (config_.head == EncoderHead::sequence) {
    outputs["loss"] = sequence_loss(logits, inputs.at("labels"), config_.problem, options);
  } else if (config_.head == EncoderHead::ctc) {
    outputs["loss"] = speech_loss(logits, inputs.at("labels"), mask, config_.ctc, options);
  } else {
    const Shape tokens{logits.size(0), logits.size(1)};
    outputs["loss"] =
        cross_entropy(logits, labels_as(inputs.at("labels"), DType::i64, tokens, "labels"), options);
  }
}

TensorMap AssembledEncoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                    Context& context) const {
  std::set<std::string> others;
  if (type_vocab_size() > 0) others.insert("token_type_ids");
  if (config_.head == EncoderHead::span) others.insert({"start_positions", "end_positions"});
  if (config_.head != EncoderHead::span) others.insert("labels");
  ModelInput given = parts_.embeddings.read(inputs, others);
  if (config_.token_types > 0) {
    const Shape tokens{given.first().size(0), given.first().size(1)};
    given.type_ids = optional_ids(inputs, "token_type_ids", &tokens);
    check_ids(given.type_ids, "token_type_ids", config_.token_types);
  }

  if (head_reads_first_token() && !options.hidden_states)
    given.read.assign(static_cast<std::size_t>(given.size()), 0);
  Collector collector(context, options);
  collector.listen(parts_.stack, "");
  if (config_.head == EncoderHead::none) collector.put(kFeaturesTap, "extract_features");
  const auto [hidden, mask] = run(given, collector.context);
  if (parts_.normed_hidden_states) collector.replace_last(parts_.stack, "", hidden);
  TensorMap& outputs = collector.outputs;
  if (config_.head == EncoderHead::none) {
    outputs["last_hidden_state"] = hidden;
    if (!parts_.projected.empty()) {
      outputs[parts_.projected] = vectors(hidden, given, collector.context);
    } else if (parts_.pool) {
      outputs["pooler_output"] = parts_.pool(hidden, given, collector.context);
    }
  } else if (config_.head == EncoderHead::span) {
    const Tensor logits = predict(hidden, {}, collector.context);  // [B, T, 2]
    const Shape tokens{logits.size(0), logits.size(1)};
    outputs["start_logits"] = reshape(slice(logits, 2, 0, 1), tokens);
    outputs["end_logits"] = reshape(slice(logits, 2, 1, 2), tokens);
  } else {
    if (config_.head == EncoderHead::masked_lm && !collector.wants_logits()) return outputs;
    outputs["logits"] = predict(hidden, mask, collector.context);
    if (const EncoderHeadParts& head = *parts_.head; head.second_output) {
      outputs["cls_logits"] = head.output(first_token(hidden));
      outputs["distillation_logits"] = (*head.second_output)(token_of(hidden, 1));
    }
  }
  add_loss(inputs, mask, outputs);
  return outputs;
}

// The output of a masked_lm head: NAME.weight, tied to the words or not, and its bias, which may have a name
// of its own besides NAME.bias.
Linear take_vocabulary_head(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w) {
  const std::string own = heads.masked_lm.output + ".bias";
  const std::string bias = heads.output_bias.empty() ? own : heads.output_bias;
  TensorRow row{.name = bias, .shape = {c.vocab_size}, .init = Init::zeros};
  Linear part{w.output(vocabulary_output(c, heads), c.vocab_size, c.d_embedding), {}};
  if (bias != own) {
    if (c.tied) {
      row.tied.push_back(own);
    } else {  // such files hold both biases, though only the output map's own is added
      w.take({.name = bias, .shape = row.shape, .init = Init::zeros, .trained = false, .required = false});
      row.name = own;
      row.aliases.push_back(bias);
    }
  }
  if (!heads.output_has_bias) return part;
  w.take(row);
  part.bias = w[own].tensor();
  return part;
}

// The names that the heads may have in a file, with the prefix of the body or without it.
void ignore_heads(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w) {
  std::vector<std::string> maps = heads.unused, names{"embeddings.position_ids", "embeddings.token_type_ids"};
  for (const HeadMaps* head : {&heads.masked_lm, &heads.sequence, &heads.token, &heads.span, &heads.ctc})
    maps.insert(maps.end(), {head->dense, head->norm, head->output, head->second_output});
  for (const std::string& map : maps) {
    if (map.empty()) continue;
    const std::string name = map.starts_with(heads.prefix) ? map.substr(heads.prefix.size()) : map;
    names.insert(names.end(), {name + ".weight", name + ".bias"});
  }
  if (!heads.output_bias.empty()) names.push_back(heads.output_bias);
  for (const std::string& name : names) {
    w.ignore(name);
    if (c.head != EncoderHead::none) w.ignore(heads.prefix + name);
  }
}

EncoderHead head_of(const Config& json, const std::string& architecture) {
  const EncoderHead head = encoder_head_named(architecture);
  const bool bare = (architecture.ends_with("Model") && !architecture.ends_with("LMHeadModel")) ||
                    architecture.ends_with("ModelWithProjection") ||
                    architecture.ends_with("ForMaskedImageModeling");
  if (head != EncoderHead::none || architecture.empty() || bare) return head;
  json.fail("architectures",
            "one that ends in Model, ForMaskedLM, ForPreTraining, ForSequenceClassification, "
            "ForImageClassification, ForAudioClassification, ForTokenClassification, ForQuestionAnswering "
            "or ForCTC");
}

}  // namespace

Tensor EncoderModel::vectors(const Tensor&, const ModelInput&, Context&) const {
  throw Error("vectors: expected a model that makes vectors of its own, as CLIP's towers, got " + family());
}

EncoderHead encoder_head_named(const std::string& architecture) {
  const auto ends = [&](const char* ending) { return architecture.ends_with(ending); };
  if (ends("ForMaskedLM") || ends("ForPreTraining")) return EncoderHead::masked_lm;
  for (const char* classifier : {"ForSequenceClassification", "ForImageClassification",
                                 "ForImageClassificationWithTeacher", "ForAudioClassification"})
    if (ends(classifier)) return EncoderHead::sequence;
  if (ends("ForTokenClassification")) return EncoderHead::token;
  if (ends("ForCTC")) return EncoderHead::ctc;
  return ends("ForQuestionAnswering") ? EncoderHead::span : EncoderHead::none;
}

EncoderConfig EncoderConfig::parse_common(const Config& json, bool decodes) {
  EncoderConfig c;
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty()) c.architecture = architectures.front();
  c.head = decodes ? EncoderHead::masked_lm : head_of(json, c.architecture);
  if (c.architecture.empty()) c.architecture = "a model without architectures in its config.json";
  c.labels = label_names(json);
  c.problem = label_problem(json);
  if (c.head == EncoderHead::sequence && c.labels.size() == 1)
    c.score_activation = score_activation_setting(json);
  c.tied = json.boolean("tie_word_embeddings", true);
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (json.boolean(key, false) == decodes) continue;
    json.fail(key, decodes ? "true for a decoder that reads an encoder's output"
                           : "false, as heed runs this family as an encoder");
  }
  if (json.boolean("is_encoder_decoder", false))
    json.fail("is_encoder_decoder", "false, as heed runs this family as an encoder");
  if (json.string("position_embedding_type", "absolute") != "absolute")
    json.fail("position_embedding_type", "absolute (relative_key and relative_key_query are not known)");
  if (const auto pruned = json.optional_sub("pruned_heads"); pruned && !pruned->names().empty())
    json.fail("pruned_heads", "no pruned heads");
  json.ignore({"gradient_checkpointing", "initializer_range", "num_labels", "cross_attention_hidden_size",
               "tie_encoder_decoder", "sentence_transformers", "sbert_ce_default_activation_function",
               "directionality", "max_seq_length"});
  return c;
}

Tensor EncoderHeadParts::features(const Tensor& x, Context& context) const {
  Tensor result = apply_dropout(x, first_dropout, context);
  if (dense) result = (*dense)(result, activation);
  if (norm) result = (*norm)(result);
  return apply_dropout(result, dropout, context);
}

const HeadMaps& EncoderHeads::of(EncoderHead head) const {
  if (head == EncoderHead::masked_lm) return masked_lm;
  if (head == EncoderHead::sequence) return sequence;
  if (head == EncoderHead::ctc) return ctc;
  return head == EncoderHead::token ? token : span;
}

std::string begin_body(const EncoderConfig& c, const EncoderHeads& heads, WeightBuilder& w) {
  const bool bare = c.head == EncoderHead::none;
  if (bare) w.set_body_prefix(heads.prefix);
  if (!bare) w.set_prefix(heads.prefix);
  return bare ? "" : heads.prefix;
}

OutputMap vocabulary_output(const EncoderConfig& c, const EncoderHeads& heads) {
  return {heads.masked_lm.output + ".weight", c.tied && c.head == EncoderHead::masked_lm};
}

Pool pool_first_token() {
  return [](const Tensor& hidden, const ModelInput&, Context&) { return first_token(hidden); };
}

Pool pool_first_two() {
  return [](const Tensor& hidden, const ModelInput&, Context&) { return mean_of_first_two(hidden); };
}

Pool pool_first_token(Linear map, Activation activation) {
  return [map = std::move(map), activation](const Tensor& hidden, const ModelInput&, Context&) {
    return map(first_token(hidden), activation);
  };
}

Pool take_pooler(const EncoderConfig& c, WeightBuilder& w, const std::string& name) {
  if (c.head != EncoderHead::none || !w.has(name + ".weight")) return {};
  return pool_first_token(w.linear(name, c.d_model, c.d_model));
}

std::optional<EncoderHeadParts> take_head(const EncoderConfig& c, const EncoderHeads& heads,
                                          WeightBuilder& w) {
  w.begin_head(c.architecture);
  ignore_heads(c, heads, w);
  if (c.head == EncoderHead::none) return std::nullopt;
  const HeadMaps& head = heads.of(c.head);
  const bool words = c.head == EncoderHead::masked_lm;
  const std::int64_t out = words ? c.d_embedding : c.d_model;
  EncoderHeadParts parts;
  parts.first_dropout = head.first_dropout;
  parts.activation = head.activation;
  parts.dropout = head.dropout;
  if (!head.dense.empty()) parts.dense = w.linear(head.dense, out, c.d_model, heads.dense_bias);
  if (!head.norm.empty()) parts.norm = w.layer_norm(head.norm, out, c.norm_eps, heads.norm_bias);
  if (words) {
    parts.output = take_vocabulary_head(c, heads, w);
  } else {
    const auto labels = static_cast<std::int64_t>(c.labels.size());
    const bool both = c.head == EncoderHead::sequence && c.sequence_input == SequenceInput::first_and_mean;
    const std::int64_t classes = c.head == EncoderHead::span  ? 2
                                 : c.head == EncoderHead::ctc ? c.vocab_size
                                                              : labels;
    parts.output = w.linear(head.output, classes, both ? 2 * c.d_model : c.d_model);
    if (!head.second_output.empty()) parts.second_output = w.linear(head.second_output, labels, c.d_model);
  }
  return parts;
}

std::unique_ptr<EncoderModel> assemble_encoder(const EncoderConfig& config, ModelContents files,
                                               EncoderParts parts) {
  return std::make_unique<AssembledEncoder>(config, std::move(files), std::move(parts));
}

}  // namespace heed
