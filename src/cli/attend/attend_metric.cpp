// heed attend --metric and --prompts: what metrics are with and without heads, over texts.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/attend/attend.h"
#include "cli/input/input.h"
#include "cli/results/measured_ablation.h"

namespace heed::cli {
namespace {

constexpr MetricKind kAllMetrics[] = {MetricKind::logit_difference, MetricKind::logit,
                                      MetricKind::probability, MetricKind::loss, MetricKind::kl};

// Whether a metric has the tokens or labels that it is of.
bool can_be_measured(const MeasuredInput& input) {
  const LogitMetric& metric = input.metric;
  if (metric.kind == MetricKind::kl) return true;
  if (metric.kind == MetricKind::loss) return metric.token || input.inputs.contains("labels");
  return metric.token && (metric.kind != MetricKind::logit_difference || metric.other);
}

// The inputs, for each metric. Without --metric, these are all that can be measured of the first input.
std::vector<std::vector<MeasuredInput>> metric_inputs(const AttendArguments& a, const GivenInputs& given,
                                                      const AnalyzedModel& loaded, const Globals& globals) {
  std::vector<MetricArguments> arguments;
  if (a.metric.metric) arguments.push_back(a.metric);
  std::vector<std::vector<MeasuredInput>> metrics(arguments.size());
  each_input(given, loaded, globals, [&](const TensorMap& inputs, const Prompt* prompt) {
    if (arguments.empty()) {
      for (const MetricKind kind : kAllMetrics) {
        MetricArguments one = a.metric;
        one.metric = name_of(kind);
        if (can_be_measured(measured_input(one, loaded, inputs, prompt))) arguments.push_back(one);
      }
      metrics.resize(arguments.size());
    }
    for (std::size_t i = 0; i < arguments.size(); ++i)
      metrics[i].push_back(measured_input(arguments[i], loaded, inputs, prompt));
  });
  if (metrics.empty() || metrics.front().empty()) throw Error("attend: expected a text, got none");
  return metrics;
}

// The heads that --ablate, --layers and --heads choose.
std::vector<Component> chosen_components(const AttendArguments& a, const AttentionKind& kind,
                                         const AnalyzedModel& loaded, const MeasuredInput& input) {
  if (!a.asks_for_each()) return {};
  const MapChoice choice = choice_of(a);
  std::vector<Component> components =
      components_of(*loaded.model, input, kind.stack, kind.part, false, "attend");
  std::set<std::int64_t> layers;
  std::int64_t heads = 0;
  for (const Component& component : components) {
    layers.insert(component.layer);
    heads = std::max(heads, component.head + 1);
  }
  check_layers(choice, layers);
  const std::vector<std::int64_t> chosen = chosen_heads(choice, heads);
  const auto in = [](const std::vector<std::int64_t>& list, std::int64_t one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  };
  std::erase_if(components, [&](const Component& component) {
    return (!choice.layers.empty() && !in(choice.layers, component.layer)) || !in(chosen, component.head);
  });
  return components;
}

HeatCell metric_cell(const MeasuredAblation& measured, const Estimate& one, const std::string& place) {
  HeatCell cell{measured.text(one), 0, fmt::format("{}: {:.5f}", place, one.mean), one.mean};
  if (measured.has_errors) cell.error = one.error;
  return cell;
}

// The values of one metric, and their changes, each a column. A divergence is a change itself.
void add_metric(HeatTable& table, const MeasuredAblation& measured, bool removes) {
  const std::string name = name_of(measured.metric.kind);
  std::vector<Estimate> values{measured.whole}, changes{{}};
  if (removes) values.push_back(measured.removed), changes.push_back(measured.removed_change);
  values.insert(values.end(), measured.each.begin(), measured.each.end());
  changes.insert(changes.end(), measured.changes.begin(), measured.changes.end());
  table.columns.push_back(name);
  for (std::size_t row = 0; row < values.size(); ++row)
    table.cells[row].push_back(
        metric_cell(measured, values[row], fmt::format("without {}, {}", table.rows[row], name)));
  if (measured.metric.kind == MetricKind::kl) return;
  double largest = 0;
  for (const Estimate& change : changes) largest = std::max(largest, std::abs(change.mean));
  table.columns.push_back("Δ " + name);
  table.cells.front().emplace_back();
  for (std::size_t row = 1; row < changes.size(); ++row) {
    HeatCell& cell = table.cells[row].emplace_back(metric_cell(
        measured, changes[row], fmt::format("without {}, {}", table.rows[row], table.columns.back())));
    if (largest > 0) cell.shade = changes[row].mean / largest;
  }
}

HeatTable metric_table(const std::vector<MeasuredAblation>& metrics, const std::vector<Component>& each,
                       const AttendArguments& a, const std::string& of) {
  const bool removes = !a.ablation.remove.empty();
  HeatTable table{.title = "Without attention heads, over " + of,
                  .rows_title = "without",
                  .legend = fmt::format("{} in the place of the output", a.ablation.replacement()),
                  .shade_legend = "changes, by the largest of their column",
                  .rows = {"nothing"},
                  .columns = {},
                  .cells = {}};
  if (removes && !each.empty()) table.legend += "; each head beside " + a.ablation.remove;
  if (metrics.front().metric.kind != MetricKind::kl) table.legend += "; Δ: the change";
  if (metrics.front().has_errors) table.legend += "; means ± standard error";
  if (removes) table.rows.push_back(a.ablation.remove);
  for (const Component& one : each) table.rows.push_back(fmt::format("{}.{}", one.layer, one.head));
  table.cells.resize(table.rows.size());
  for (const MeasuredAblation& one : metrics) add_metric(table, one, removes);
  return table;
}

std::string metric_json(const std::vector<MeasuredAblation>& metrics, const std::vector<Component>& each,
                        const AttendArguments& a, const std::string& inputs, std::size_t count) {
  JsonWriter json;
  json.begin_object().field(inputs, count);
  if (!a.ablation.remove.empty()) json.field("remove", a.ablation.remove);
  json.key("metrics").begin_array();
  for (const MeasuredAblation& measured : metrics) {
    json.begin_object();
    measured.write_totals(json, a.ablation);
    json.key("heads").begin_array();
    for (std::size_t i = 0; i < each.size(); ++i) {
      json.begin_object().field("layer", each[i].layer).field("head", each[i].head);
      measured.write(json, "value", measured.each[i]);
      measured.write(json, "change", measured.changes[i]);
      json.end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text();
}

void check_metric_arguments(const AttendArguments& a, const TableOutput& output) {
  const char* option = a.prompts.empty() ? "--metric" : "--prompts";
  if (!a.prompts.empty() && !a.texts.empty())
    throw UsageError("--prompts: expected texts or --prompts FILE, got both");
  if (!a.asks_for_each() && a.ablation.remove.empty())
    throw UsageError(std::string(option) + ": needs --ablate or --remove");
  if (!a.asks_for_each() && !(a.layers.empty() && a.heads.empty()))
    throw UsageError(std::string(a.layers.empty() ? "--heads" : "--layers") + ": needs --ablate, with " +
                     option);
  if (a.heads == "mean" || a.heads == "max" || a.heads == "alignment")
    throw UsageError(fmt::format("--heads: expected heads or all with {}, got {}", option, a.heads));
  check_ablation(a.ablation);
  check_table_output(output);
}

}  // namespace

void show_metrics(const AttendArguments& a, const Globals& globals) {
  const TableOutput output{.file = a.output, .width = a.width > 0 ? fmt::format("{}", a.width) : ""};
  check_metric_arguments(a, output);
  GivenInputs given{.texts = a.texts, .prompts = a.prompts, .target = a.target};
  if (given.target) given.target = valid_text(*given.target, "--target", globals.quiet);
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  refuse_text_option(loaded, "--target", a.target.has_value());
  refuse_text_option(loaded, "--prompts", !a.prompts.empty());
  const std::string first = attention_kinds(*loaded.model).front().name;
  const AttentionKind kind = analyzed_kind(a.kind.empty()     ? first
                                           : a.kind == "self" ? ""
                                                              : a.kind,
                                           *loaded.model, "attend");
  if (loaded.reads_files()) labels_of(loaded, "--metric");
  const auto inputs = metric_inputs(a, given, loaded, globals);
  const std::vector<Component> each = chosen_components(a, kind, loaded, inputs.front().front());
  std::vector<MeasuredAblation> metrics;
  for (const std::vector<MeasuredInput>& one : inputs)
    metrics.push_back(measure_ablation(one, each, a.ablation, kind, given, loaded, globals));
  warn_of_non_finite(*loaded.model,
                     std::all_of(metrics.begin(), metrics.end(),
                                 [](const MeasuredAblation& one) { return std::isfinite(one.whole.mean); }),
                     globals);
  const std::size_t count = inputs.front().size();
  const std::string name = given.prompts.empty() ? fmt::format("{}s", loaded.reads()) : "prompts";
  HeatTable table = metric_table(
      metrics, each, a,
      count == 1 ? fmt::format("a {}", name.substr(0, name.size() - 1)) : fmt::format("{} {}", count, name));
  table.subtitle = subtitle_of(a.model, given.title(loaded, count));
  show_table(table, metric_json(metrics, each, a, name, count), output, globals);
}

}  // namespace heed::cli
