// The options of what an analysis measures: --metric, and the token or label that it is of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "heed/inspect/metric.h"

namespace heed::cli {

/// A token or a label, as --token, --id or --label name it.
struct ChosenToken {
  std::optional<std::string> token = {}, id = {}, label = {};
  bool given() const { return token || id || label; }
};

struct MetricArguments {
  std::optional<std::string> metric;  // a word of --metric
  ChosenToken chosen;
  std::optional<std::string> other;  // in the way that the first is given
  std::optional<std::int64_t> position;
};

/// Adds --metric, --token, --id, --label, --other and --position; `uses` says what these are for: "--metric
/// is of".
void add_metric_options(CLI::App& command, MetricArguments& arguments, const std::string& default_metric,
                        const std::string& uses = "--metric is of");
/// Adds --token, --id and --label alone.
void add_token_options(CLI::App& command, ChosenToken& chosen, const std::string& what,
                       const std::string& group);

/// The id of a token, or the number of a label: that of a classifier, by its name or number. Throws
/// UsageError naming the option for what the model does not have, and for two options. `chosen.given()`.
std::int64_t chosen_id(const ChosenToken& chosen, const Model& model, const Tokenizer* tokenizer);
/// The same of another, `--other`, given as `like` is.
std::int64_t other_id(const std::string& other, const ChosenToken& like, const AnalyzedModel& model);

/// The metric that the options say; of no --metric, the difference of two tokens, the logit of one, else
/// `without`. Throws UsageError for a metric without its token.
LogitMetric chosen_metric(const MetricArguments& arguments, const AnalyzedModel& model, MetricKind without);
/// The word of --metric.
const char* name_of(MetricKind kind);
/// "logit difference", with the tokens: "logit difference of ·Paris and ·Rome".
std::string text_of(const LogitMetric& metric, const AnalyzedModel& model);
/// By how much a metric falls, or a loss or divergence grows, where something useful is missing: the sign of
/// that change.
double sign_of_harm(MetricKind kind);

/// Whether the model is a masked language model.
bool predicts_masks(const AnalyzedModel& model);
/// The position that a metric is measured at, where no option says it: of a masked language model, the first
/// mask token. Throws Error for a text without one.
std::optional<std::int64_t> usual_position(const AnalyzedModel& model, const std::vector<std::int64_t>& ids);

/// Adds the labels that the loss of a text or file without a chosen token is of: its own tokens, or the label
/// that the model predicts. Throws Error for a model that has neither.
void add_labels(const AnalyzedModel& model, TensorMap& inputs);

}  // namespace heed::cli
