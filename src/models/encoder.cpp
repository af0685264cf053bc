// Forward pass, loss, loading and saving of assembled encoders.
#include "models/encoder.h"

#include <algorithm>
#include <set>

#include "heed/io/file.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/labels.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

// Places counted over the ids that are not `padding`, from padding + 1 on; padding stands at its own number.
Tensor counted_positions(const Tensor& ids, std::int64_t padding) {
  Tensor positions = Tensor::empty(ids.shape(), DType::i64);
  const std::int64_t* id = ids.data<std::int64_t>();
  std::int64_t* position = positions.data<std::int64_t>();
  const std::int64_t length = ids.size(1);
  for (std::int64_t i = 0, count = 0; i < ids.numel(); ++i) {
    if (i % length == 0) count = 0;
    if (id[i] != padding) ++count;
    position[i] = id[i] == padding ? padding : padding + count;
  }
  return positions;
}

Tensor first_positions(std::int64_t length) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) places[static_cast<std::size_t>(i)] = i;
  return Tensor::from(places, {length});
}

// The attention's options; none where nothing is hidden, which is the faster way.
AttentionOptions visible(const Tensor& mask) {
  if (!mask.defined()) return {};
  const std::int64_t* seen = mask.data<std::int64_t>();
  const bool all = std::all_of(seen, seen + mask.numel(), [](std::int64_t m) { return m != 0; });
  return all ? AttentionOptions{} : see_only(mask);
}

Tensor first_token(const Tensor& hidden) {
  return reshape(slice(hidden, 1, 0, 1), {hidden.size(0), hidden.size(2)});
}

class AssembledEncoder final : public EncoderModel {
 public:
  AssembledEncoder(Config json, EncoderConfig config, Weights weights, EncoderParts parts)
      : json_(std::move(json)),
        config_(std::move(config)),
        weights_(std::move(weights)),
        parts_(std::move(parts)) {}

  std::string family() const override { return json_.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return weights_.parameters(); }
  std::optional<std::int64_t> max_positions() const override {
    return config_.positions - (parts_.counted ? *parts_.counted + 1 : 0);
  }
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  EncoderHead head() const override { return config_.head; }
  const std::vector<std::string>& labels() const override { return config_.labels; }
  std::optional<LabelProblem> problem() const override { return config_.problem; }
  std::int64_t hidden_size() const override { return config_.width; }
  std::int64_t type_vocab_size() const override { return parts_.types.defined() ? config_.types : 0; }
  std::int64_t pad_id() const override { return config_.padding.value_or(0); }
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::vector<std::string> unknown_settings() const override { return json_.unused(); }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor encode(const EncoderBatch& batch, Context& context) const override;
  Tensor predict(const Tensor& hidden, Context& context) const override;
  Tensor loss(const EncoderBatch& batch, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override;

 private:
  const EncoderHeadParts& head_parts() const {
    if (!parts_.head) throw Error("predict: expected a model with a head, got " + config_.architecture);
    return *parts_.head;
  }
  Tensor head_input(const Tensor& hidden) const {
    return config_.head == EncoderHead::sequence ? first_token(hidden) : hidden;
  }
  void add_loss(const TensorMap& inputs, TensorMap& outputs) const;

  Config json_;
  EncoderConfig config_;
  Weights weights_;
  EncoderParts parts_;
};

Tensor AssembledEncoder::encode(const EncoderBatch& batch, Context& context) const {
  if (batch.ids.size(0) == 0 || batch.ids.size(1) == 0)
    throw Error("encode: expected at least one row and one token, got " + batch.ids.str());
  return parts_.encoder(parts_.embed(batch, context), visible(batch.mask), context);
}

Tensor AssembledEncoder::predict(const Tensor& hidden, Context& context) const {
  const EncoderHeadParts& head = head_parts();
  return head.output(head.features(head_input(hidden), context));
}

// The rows of hidden [B, T, D] whose label counts, and those labels.
std::pair<Tensor, Tensor> labelled_rows(const Tensor& hidden, const Tensor& labels, std::int64_t ignored) {
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

Tensor AssembledEncoder::loss(const EncoderBatch& batch, const Tensor& labels,
                              const CrossEntropyOptions& options, Context& context) const {
  const EncoderHeadParts& head = head_parts();
  const Tensor hidden = encode(batch, context);
  if (config_.head == EncoderHead::span) return span_loss(predict(hidden, context), labels, options);
  if (config_.head == EncoderHead::sequence)
    return sequence_loss(predict(hidden, context), labels, config_.problem, options);
  const Tensor wanted = labels_as(labels, DType::i64, batch.ids.shape(), "labels");
  // Few tokens of a masked batch are predicted, so only these pass the head.
  const auto [rows, targets] = labelled_rows(hidden, wanted, options.ignore_index);
  return linear_cross_entropy(head.features(rows, context), head.output.weight, head.output.bias, targets,
                              options);
}

void AssembledEncoder::add_loss(const TensorMap& inputs, TensorMap& outputs) const {
  const CrossEntropyOptions options;
  const bool span = config_.head == EncoderHead::span;
  if (!inputs.contains(span ? "start_positions" : "labels")) return;
  if (config_.head == EncoderHead::none)
    throw Error("forward: labels: expected none, as " + config_.architecture + " has no head, got some");
  const Tensor& logits = outputs.at(span ? "start_logits" : "logits");
  if (span) {
    const Shape rows{logits.size(0)};
    const auto places = [&](const char* name) {
      return labels_as(required_input(inputs, name), DType::i64, rows, name);
    };
    outputs["loss"] = span_loss(stack({logits, outputs.at("end_logits")}, 2),
                                stack({places("start_positions"), places("end_positions")}, 1), options);
  } else if (config_.head == EncoderHead::sequence) {
    outputs["loss"] = sequence_loss(logits, inputs.at("labels"), config_.problem, options);
  } else {
    const Shape tokens{logits.size(0), logits.size(1)};
    outputs["loss"] =
        cross_entropy(logits, labels_as(inputs.at("labels"), DType::i64, tokens, "labels"), options);
  }
}

TensorMap AssembledEncoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                    Context& context) const {
  std::set<std::string> known{"input_ids", "attention_mask"};
  if (type_vocab_size() > 0) known.insert("token_type_ids");
  if (config_.head == EncoderHead::span) known.insert({"start_positions", "end_positions"});
  if (config_.head != EncoderHead::span) known.insert("labels");
  refuse_unknown_inputs(inputs, known);
  EncoderBatch batch{ids_input(required_input(inputs, "input_ids"), "input_ids"), {}, {}};
  batch.mask = optional_ids(inputs, "attention_mask", &batch.ids.shape());
  batch.type_ids = optional_ids(inputs, "token_type_ids", &batch.ids.shape());
  check_ids(batch.ids, "input_ids", vocab_size());
  check_ids(batch.type_ids, "token_type_ids", config_.types);

  TensorMap outputs;
  Taps taps(context.taps);
  const std::string& stack = parts_.encoder.name;
  const std::size_t layers = parts_.encoder.layers.size();
  if (options.hidden_states) collect_hidden_states(taps, stack, layers, "hidden_states", outputs);
  if (options.attentions) collect_attentions(taps, stack, "self_attn", layers, "attentions", outputs);
  Context listening = context;
  listening.taps = &taps;
  const Tensor hidden = encode(batch, listening);
  if (config_.head == EncoderHead::none) {
    outputs["last_hidden_state"] = hidden;
    if (parts_.pooler) outputs["pooler_output"] = (*parts_.pooler)(first_token(hidden), Activation::tanh);
  } else if (config_.head == EncoderHead::span) {
    const Tensor logits = predict(hidden, listening);  // [B, T, 2]
    const Shape tokens{logits.size(0), logits.size(1)};
    outputs["start_logits"] = reshape(slice(logits, 2, 0, 1), tokens);
    outputs["end_logits"] = reshape(slice(logits, 2, 1, 2), tokens);
  } else {
    outputs["logits"] = predict(hidden, listening);
  }
  add_loss(inputs, outputs);
  return outputs;
}

void AssembledEncoder::save(const std::filesystem::path& directory, DType dtype) const {
  write_file(directory / "config.json", config_for_saving(json_, dtype) + "\n");
  save_safetensors(directory / "model.safetensors", weights_.stored(dtype));
}

EncoderHead head_of(const Config& json, const std::string& architecture) {
  const auto ends = [&](const char* ending) { return architecture.ends_with(ending); };
  if (ends("ForMaskedLM") || ends("ForPreTraining")) return EncoderHead::masked_lm;
  if (ends("ForSequenceClassification")) return EncoderHead::sequence;
  if (ends("ForTokenClassification")) return EncoderHead::token;
  if (ends("ForQuestionAnswering")) return EncoderHead::span;
  if (architecture.empty() || (ends("Model") && !ends("LMHeadModel"))) return EncoderHead::none;
  json.fail("architectures",
            "one that ends in Model, ForMaskedLM, ForPreTraining, ForSequenceClassification, "
            "ForTokenClassification or ForQuestionAnswering");
}

}  // namespace

EncoderConfig EncoderConfig::parse_common(const Config& json) {
  EncoderConfig c;
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty()) c.architecture = architectures.front();
  c.head = head_of(json, c.architecture);
  if (c.architecture.empty()) c.architecture = "a model without architectures in its config.json";
  c.labels = label_names(json);
  c.problem = label_problem(json);
  c.tied = json.boolean("tie_word_embeddings", true);
  for (const char* key : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    if (json.boolean(key, false)) json.fail(key, "false, as heed runs this family as an encoder");
  }
  if (json.string("position_embedding_type", "absolute") != "absolute")
    json.fail("position_embedding_type", "absolute (relative_key and relative_key_query are not known)");
  if (const auto pruned = json.optional_sub("pruned_heads"); pruned && !pruned->names().empty())
    json.fail("pruned_heads", "no pruned heads");
  json.ignore({"gradient_checkpointing", "initializer_range", "num_labels", "cross_attention_hidden_size",
               "tie_encoder_decoder", "sentence_transformers", "directionality", "max_seq_length"});
  return c;
}

Tensor EncoderHeadParts::features(const Tensor& x, Context& context) const {
  Tensor result = apply_dropout(x, first_dropout, context);
  if (dense) result = (*dense)(result, activation);
  if (norm) result = (*norm)(result);
  return apply_dropout(result, dropout, context);
}

Tensor EncoderParts::embed(const EncoderBatch& batch, Context& context) const {
  const std::int64_t length = batch.ids.size(1), rows = positions.table.size(0);
  const std::int64_t places = rows - (counted ? *counted + 1 : 0);
  if (length > places && !counted) {
    throw Error("positions: expected at most " + std::to_string(places) + " tokens, got " +
                std::to_string(length) + " (cut the text, or use a model with more positions)");
  }
  const Tensor at = counted ? counted_positions(batch.ids, *counted) : first_positions(length);
  if (counted) {
    const std::int64_t last =
        *std::max_element(at.data<std::int64_t>(), at.data<std::int64_t>() + at.numel());
    if (last >= rows) {
      throw Error("positions: expected at most " + std::to_string(places) +
                  " tokens that are not padding, "
                  "got " +
                  std::to_string(last - *counted) + " (cut the text, or use a model with more positions)");
    }
  }
  Tensor x = words(batch.ids);  // [B, T, E]
  if (types.defined()) {
    x = x + embedding(types, batch.type_ids.defined() ? batch.type_ids : Tensor::zeros({1}, DType::i64));
  }
  x = apply_dropout(norm(x + positions(at)), dropout, context);
  return projection ? (*projection)(x) : x;  // [B, T, D]
}

void add_other_names(EncoderTable& encoder, const std::string& prefix,
                     const std::vector<std::string>& unused) {
  const bool bare = !encoder.table.rows.front().name.starts_with(prefix);
  if (!bare) encoder.table.prefix = prefix;
  const auto all_names = [&](const std::string& name) {
    constexpr std::string_view weight = "LayerNorm.weight", bias = "LayerNorm.bias";
    std::vector<std::string> names{name};
    if (name.ends_with(weight)) names.push_back(name.substr(0, name.size() - 6) + "gamma");
    if (name.ends_with(bias)) names.push_back(name.substr(0, name.size() - 4) + "beta");
    for (std::size_t i = 0, given = names.size(); bare && i < given; ++i) names.push_back(prefix + names[i]);
    return names;
  };
  std::set<std::string> read;
  for (TensorRow& row : encoder.table.rows) {
    for (const std::string& name : all_names(row.name)) {
      if (name != row.name) row.aliases.push_back(name);
    }
    read.insert(row.name);
    read.insert(row.tied.begin(), row.tied.end());
    read.insert(row.aliases.begin(), row.aliases.end());
  }
  for (const std::string& name : unused) {
    for (const std::string& one : all_names(name)) {
      if (!read.contains(one)) encoder.table.computed.push_back(one);
      if (!bare && !read.contains(prefix + one)) encoder.table.computed.push_back(prefix + one);
    }
  }
}

std::unique_ptr<EncoderModel> make_encoder(const EncoderFamily& family, const Config& json,
                                           Generator& generator) {
  const EncoderConfig config = family.parse(json);
  refuse_unknown_keys(json);
  const EncoderTable table = family.table(config, [](const std::string&) { return true; });
  Weights weights = Weights::initialise(table.table, generator);
  EncoderParts parts = family.build(config, weights);
  return std::make_unique<AssembledEncoder>(json, config, std::move(weights), std::move(parts));
}

std::unique_ptr<EncoderModel> load_encoder(const EncoderFamily& family,
                                           const std::filesystem::path& directory, DType dtype) {
  const Config json = Config::load(directory / "config.json");
  const EncoderConfig config = family.parse(json);
  const TensorFiles files = TensorFiles::open(directory);
  const EncoderTable table =
      family.table(config, [&](const std::string& name) { return files.contains(name); });
  for (std::size_t i = table.body_rows; i < table.table.rows.size(); ++i) {
    const TensorRow& row = table.table.rows[i];
    if (!row.required) continue;
    std::vector<std::string> names = row.tied;
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
    names.push_back(row.name);
    if (std::none_of(names.begin(), names.end(), [&](const auto& name) { return files.contains(name); })) {
      throw Error(files.path().string() + ": expected the head of " + config.architecture +
                  " (config.json: architectures), got no tensor " + row.name +
                  " (train the head first, or name an architecture the file holds)");
    }
  }
  Weights weights = Weights::load(files, table.table, dtype);
  EncoderParts parts = family.build(config, weights);
  return std::make_unique<AssembledEncoder>(json, config, std::move(weights), std::move(parts));
}

}  // namespace heed
