// Metrics, tokens and parts of layers as users name them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "heed/analyses/analyzed.h"
#include "heed/models/kind.h"

namespace heed {
namespace {

constexpr const char* kMetricTexts[] = {"loss", "logit", "logit difference", "probability", "KL divergence"};

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 0) return std::nullopt;
  return number;
}

std::int64_t token_or_label(const std::string& given, const char* option, const Model& model,
                            const Tokenizer* tokenizer) {
  const std::vector<std::string> labels = labels_of(model);
  if (labels.empty()) {
    if (tokenizer == nullptr) throw OptionError(option, "expected a model with a tokenizer (--id takes ids)");
    return single_token(*tokenizer, given, option);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == given || std::to_string(i) == given) return static_cast<std::int64_t>(i);
  }
  throw OptionError(option, "expected a label of the model or its number, got " + given +
                                " (heed models MODEL lists them)");
}

std::int64_t numbered(const std::string& given, const char* option, const Model& model) {
  const auto labels = std::ssize(labels_of(model));
  const std::int64_t count = labels > 0 ? labels : model.vocab_size();
  const std::optional<std::int64_t> id = whole_number(given);
  if (!id || *id >= count)
    throw OptionError(option, fmt::format("expected an id below {}, got {}", count, given));
  return *id;
}

std::string shown_of(std::int64_t id, const AnalyzedModel& model) {
  const std::vector<std::string> labels = labels_of(*model.model);
  return labels.empty() ? model.shown(id) : label_name(labels, id);
}

bool predicts_masks(const AnalyzedModel& model) {
  const auto* encoder = as<EncoderModel>(*model.model);
  return encoder != nullptr && encoder->head() == EncoderHead::masked_lm;
}

// Of a masked language model, the first mask token.
std::optional<std::int64_t> usual_position(const AnalyzedModel& model, const std::vector<std::int64_t>& ids) {
  if (!predicts_masks(model)) return std::nullopt;
  const auto mask = model.tokenizer()->mask_id();
  const auto found = mask ? std::find(ids.begin(), ids.end(), *mask) : ids.end();
  if (found == ids.end())
    throw Error("--position: missing (the text has no mask token" +
                (mask ? " " + model.tokenizer()->token(*mask) : std::string()) + ")");
  return found - ids.begin();
}

// The labels that the loss of a text or file without a chosen token is of.
void add_labels(const AnalyzedModel& model, TensorMap& inputs) {
  if (as<EncoderDecoderModel>(*model.model) != nullptr) return;
  const auto* encoder = as<EncoderModel>(*model.model);
  if (encoder != nullptr && encoder->head() == EncoderHead::sequence) {
    inputs["labels"] = Tensor::from(std::vector<std::int64_t>{predicted_label(model, inputs)}, {1});
  } else if (as<DecoderModel>(*model.model) != nullptr) {
    inputs["labels"] = inputs.at("input_ids");
  }
}

}  // namespace

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names{"loss", "logit", "logit-diff", "probability", "kl"};
  return names;
}

std::string name_of(MetricKind kind) { return metric_names()[static_cast<std::size_t>(kind)]; }

std::string text_of(const LogitMetric& metric, const AnalyzedModel& model) {
  std::string text = kMetricTexts[static_cast<std::size_t>(metric.kind)];
  if (metric.kind == MetricKind::kl || !metric.token) return text;
  text += " of " + shown_of(*metric.token, model);
  return metric.kind == MetricKind::logit_difference && metric.other
             ? text + " and " + shown_of(*metric.other, model)
             : text;
}

double sign_of_harm(MetricKind kind) { return kind == MetricKind::loss || kind == MetricKind::kl ? 1 : -1; }

std::int64_t single_token(const Tokenizer& tokenizer, const std::string& text, const char* option) {
  const std::vector<std::int64_t> ids = tokenizer.encode(text, false).ids;
  if (ids.size() == 1) return ids.front();
  if (const auto id = tokenizer.token_to_id(text)) return *id;
  if (text.starts_with(" ") && text.size() > 1) {  // of tokenizers that put a space before every text
    const std::vector<std::int64_t> bare = tokenizer.encode(std::string_view(text).substr(1), false).ids;
    if (bare.size() == 1) return bare.front();
  }
  std::string tokens;
  for (const std::int64_t id : ids) tokens += (tokens.empty() ? "" : " ") + tokenizer.token(id);
  throw OptionError(option, fmt::format("expected one token, got {} ({})", ids.size(), tokens));
}

std::int64_t chosen_id(const TokenChoice& choice, const Model& model, const Tokenizer* tokenizer) {
  if (choice.token && choice.id) throw OptionError("token", "expected one of --token and --id, got both");
  return choice.id ? numbered(*choice.id, "id", model)
                   : token_or_label(*choice.token, "token", model, tokenizer);
}

LogitMetric metric_of(const MetricChoice& choice, const AnalyzedModel& model, const AnalyzedInput& input,
                      MetricKind without) {
  const TokenChoice token = input.a ? TokenChoice{.token = input.a} : choice.token;
  const std::optional<std::string>& other = input.b ? input.b : choice.other;
  LogitMetric metric{.kind = choice.kind      ? *choice.kind
                             : !token.given() ? without
                             : other          ? MetricKind::logit_difference
                                              : MetricKind::logit,
                     .position = choice.position};
  if (token.given()) metric.token = chosen_id(token, *model.model, model.tokenizer());
  if (other)
    metric.other = token.id ? numbered(*other, "other", *model.model)
                            : token_or_label(*other, "other", *model.model, model.tokenizer());
  if (!metric.position && !model.reads_files()) metric.position = usual_position(model, input.ids);
  return metric;
}

MeasuredInput measured_input(const MetricChoice& choice, const AnalyzedModel& model,
                             const AnalyzedInput& input, MetricKind without) {
  MeasuredInput measured{input.inputs, metric_of(choice, model, input, without)};
  if (measured.metric.kind != MetricKind::loss || measured.metric.token) return measured;
  if (predicts_masks(model))
    throw OptionError("token", "missing (a masked language model is measured by one token at the mask)");
  add_labels(model, measured.inputs);
  return measured;
}

void check_position_option(const char* option, std::int64_t position, std::size_t count) {
  if (position >= static_cast<std::int64_t>(count))
    throw OptionError(option, fmt::format("expected a position below {}, got {}", count, position));
}

std::optional<LayerPart> parse_layer_part(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::optional<std::int64_t> layer = whole_number(text.substr(0, dot));
  const std::string head = text.substr(dot + 1);
  if (layer && head == "ff") return LayerPart{*layer, -1};
  const std::optional<std::int64_t> number = whole_number(head);
  if (!layer || !number) return std::nullopt;
  return LayerPart{*layer, *number};
}

LayerPart parse_head(const std::string& text, const char* option) {
  const std::optional<LayerPart> part = parse_layer_part(text);
  if (!part || part->head < 0) throw OptionError(option, "expected LAYER.HEAD, as 5.1, got " + text);
  return *part;
}

}  // namespace heed
