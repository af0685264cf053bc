// Metrics from options.
#include "cli/options/metric_options.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

struct MetricName {
  const char* name;
  MetricKind kind;
  const char* text;
};
constexpr MetricName kMetrics[] = {{"loss", MetricKind::loss, "loss"},
                                   {"logit", MetricKind::logit, "logit"},
                                   {"logit-diff", MetricKind::logit_difference, "logit difference"},
                                   {"probability", MetricKind::probability, "probability"},
                                   {"kl", MetricKind::kl, "KL divergence"}};

const MetricName& named(MetricKind kind) {
  return *std::find_if(std::begin(kMetrics), std::end(kMetrics),
                       [&](const MetricName& metric) { return metric.kind == kind; });
}

// The labels of a classifier or tagger; none of other models.
std::vector<std::string> labels_in(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  if (encoder == nullptr) return {};
  const bool has = encoder->head() == EncoderHead::sequence || encoder->head() == EncoderHead::token;
  return has ? encoder->labels() : std::vector<std::string>();
}

std::int64_t label_id(const std::string& given, const char* option, const Model& model) {
  const std::vector<std::string> labels = labels_in(model);
  if (labels.empty())
    throw UsageError(std::string(option) + ": expected a classifier, got " + kind_of(model));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == given || std::to_string(i) == given) return static_cast<std::int64_t>(i);
  }
  throw UsageError(std::string(option) + ": expected a label of the model or its number, got " + given +
                   " (heed info lists them)");
}

std::int64_t token_or_label(const std::string& given, const char* option, const Model& model,
                            const Tokenizer* tokenizer) {
  if (!labels_in(model).empty()) return label_id(given, option, model);
  if (tokenizer == nullptr)
    throw UsageError(std::string(option) + ": expected a model with a tokenizer (--id takes ids)");
  return single_token(*tokenizer, given, option);
}

std::int64_t numbered(const std::string& given, const char* option, const Model& model) {
  const auto labels = std::ssize(labels_in(model));
  const std::int64_t count = labels > 0 ? labels : model.vocab_size();
  std::int64_t id = -1;
  if (!parse_number(given, id) || id < 0 || id >= count)
    throw UsageError(fmt::format("{}: expected an id below {}, got {}", option, count, given));
  return id;
}

std::string shown_of(std::int64_t id, const AnalyzedModel& model) {
  if (const std::vector<std::string> labels = labels_in(*model.model); !labels.empty())
    return label_name(labels, id);
  if (model.tokenizer == nullptr) return std::to_string(id);
  return inspect::shown_tokens({model.tokenizer->token(id)}, model.tokenizer.get()).front();
}

}  // namespace

void add_token_options(CLI::App& command, ChosenToken& chosen, const std::string& what,
                       const std::string& group) {
  command.add_option("--token", chosen.token, what + ": a token; of a classifier, a label")
      ->type_name("TOKEN")
      ->group(group);
  command.add_option("--id", chosen.id, "The same by its id in the vocabulary, or the number of a label")
      ->type_name("N")
      ->group(group);
  command.add_option("--label", chosen.label, "The same of a classifier, by the label's name")
      ->type_name("LABEL")
      ->group(group);
}

void add_metric_options(CLI::App& command, MetricArguments& arguments, const std::string& default_metric,
                        const std::string& uses) {
  std::vector<std::string> words;
  for (const MetricName& metric : kMetrics) words.emplace_back(metric.name);
  accept_words(command.add_option("--metric", arguments.metric,
                                  "What is measured: the loss, the logit or probability of --token, the "
                                  "difference of the logits of --token and --other, or the KL divergence "
                                  "from the unchanged run (default: " +
                                      default_metric + ")"),
               words)
      ->group("Metric");
  add_token_options(command, arguments.chosen, "What " + uses, "Metric");
  command
      .add_option("--other", arguments.other,
                  "The token that --token is compared with, given in the same way")
      ->type_name("TOKEN")
      ->group("Metric");
  command
      .add_option("--position", arguments.position,
                  "The position that predicts --token, from 0 (default: the last; of a masked language "
                  "model, that of the first mask)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Metric");
}

std::int64_t chosen_id(const ChosenToken& chosen, const Model& model, const Tokenizer* tokenizer) {
  if (chosen.token.has_value() + chosen.id.has_value() + chosen.label.has_value() > 1)
    throw UsageError("--token: expected one of --token, --id and --label, got several");
  if (chosen.id) return numbered(*chosen.id, "--id", model);
  if (chosen.label) return label_id(*chosen.label, "--label", model);
  return token_or_label(*chosen.token, "--token", model, tokenizer);
}

std::int64_t other_id(const std::string& other, const ChosenToken& like, const AnalyzedModel& model) {
  if (like.id) return numbered(other, "--other", *model.model);
  return token_or_label(other, "--other", *model.model, model.tokenizer.get());
}

LogitMetric chosen_metric(const MetricArguments& arguments, const AnalyzedModel& model, MetricKind without) {
  const bool given = arguments.chosen.given();
  LogitMetric metric{.kind = !given            ? without
                             : arguments.other ? MetricKind::logit_difference
                                               : MetricKind::logit,
                     .position = arguments.position};
  for (const MetricName& one : kMetrics) {
    if (arguments.metric && *arguments.metric == one.name) metric.kind = one.kind;
  }
  if (given) metric.token = chosen_id(arguments.chosen, *model.model, model.tokenizer.get());
  if (arguments.other) metric.other = other_id(*arguments.other, arguments.chosen, model);
  return metric;
}

const char* name_of(MetricKind kind) { return named(kind).name; }

std::string text_of(const LogitMetric& metric, const AnalyzedModel& model) {
  std::string text = named(metric.kind).text;
  if (metric.kind == MetricKind::kl || !metric.token) return text;
  text += " of " + shown_of(*metric.token, model);
  return metric.kind == MetricKind::logit_difference && metric.other
             ? text + " and " + shown_of(*metric.other, model)
             : text;
}

double sign_of_harm(MetricKind kind) { return kind == MetricKind::loss || kind == MetricKind::kl ? 1 : -1; }

bool predicts_masks(const AnalyzedModel& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(model.model);
  return encoder != nullptr && encoder->head() == EncoderHead::masked_lm;
}

std::optional<std::int64_t> usual_position(const AnalyzedModel& model, const std::vector<std::int64_t>& ids) {
  if (!predicts_masks(model)) return std::nullopt;
  const auto mask = model.tokenizer->mask_id();
  const auto found = mask ? std::find(ids.begin(), ids.end(), *mask) : ids.end();
  if (found == ids.end())
    throw Error("--position: missing (the text has no mask token" +
                (mask ? " " + model.tokenizer->token(*mask) : std::string()) + ")");
  return found - ids.begin();
}

void add_labels(const AnalyzedModel& model, TensorMap& inputs) {
  if (dynamic_cast<const EncoderDecoderModel*>(model.model) != nullptr) return;
  const auto* encoder = dynamic_cast<const EncoderModel*>(model.model);
  if (encoder != nullptr && encoder->head() == EncoderHead::sequence) {
    inputs["labels"] = Tensor::from(std::vector<std::int64_t>{predicted_label(model, inputs)}, {1});
  } else if (dynamic_cast<const DecoderModel*>(model.model) != nullptr) {
    inputs["labels"] = inputs.at("input_ids");
  }
}

}  // namespace heed::cli
