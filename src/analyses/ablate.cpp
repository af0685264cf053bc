// What metrics are without heads and feed-forward networks, over texts, files or prompts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyses/means.h"
#include "heed/analyses/analyses.h"

namespace heed {
namespace {

// In the order in which they are shown where none is chosen.
constexpr MetricKind kAllMetrics[] = {MetricKind::logit_difference, MetricKind::logit,
                                      MetricKind::probability, MetricKind::loss, MetricKind::kl};

// Means over the inputs. A change is that of the same inputs, so its error is not that of two means.
struct MeasuredAblation {
  MetricKind metric = MetricKind::loss;
  bool means = false;
  Estimate whole = {}, removed = {}, removed_change = {};
  std::vector<Estimate> each = {}, changes = {};  // without each component, and by how much less `removed`

  std::string text(const Estimate& one) const {
    return means ? fmt::format("{:.3f} ± {:.3f}", one.mean, one.error) : fmt::format("{:.3f}", one.mean);
  }
  void write(ReportValue& record, const std::string& name, const Estimate& one) const {
    record.add(name, one.mean);
    if (means) record.add(name + "_error", one.error);
  }
  ReportCell cell(const Estimate& one, const std::string& place) const {
    ReportCell cell{text(one), 0, fmt::format("{}: {:.5f}", place, one.mean), one.mean};
    if (means) cell.error = one.error;
    return cell;
  }
};

// Whether a metric has the tokens or labels that it is of.
bool can_be_measured(const MeasuredInput& input) {
  const LogitMetric& metric = input.metric;
  if (metric.kind == MetricKind::kl) return true;
  if (metric.kind == MetricKind::loss) return metric.token || input.inputs.contains("labels");
  return metric.token && (metric.kind != MetricKind::logit_difference || metric.other);
}

// The inputs, for each metric. Without a chosen one, these are all that the tokens of the first input allow;
// without tokens, the loss.
std::vector<std::vector<MeasuredInput>> metric_inputs(const AnalyzedModel& model,
                                                      std::span<const AnalyzedInput> inputs,
                                                      const MetricChoice& choice) {
  std::vector<MetricChoice> choices;
  const bool tokens = choice.token.given() || inputs.front().a;
  for_each_input(inputs.first(1), [&](const AnalyzedInput& input) {
    for (const MetricKind kind : kAllMetrics) {
      MetricChoice one = choice;
      one.kind = kind;
      const bool wanted = choice.kind ? kind == *choice.kind : tokens || kind == MetricKind::loss;
      if (!wanted) continue;
      if (choice.kind || can_be_measured(measured_input(one, model, input, kind))) choices.push_back(one);
    }
  });
  if (choices.empty())
    throw OptionError("metric", "missing (the model has no loss of a text; choose --token)");
  std::vector<std::vector<MeasuredInput>> metrics(choices.size());
  for_each_input(inputs, [&](const AnalyzedInput& input) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      MeasuredInput measured = measured_input(choices[i], model, input, *choices[i].kind);
      const std::vector<MeasuredInput>& before = metrics[i];
      if (!before.empty() && measured.metric.kind == MetricKind::loss &&
          measured.metric.token.has_value() != before.front().metric.token.has_value())
        throw Error("expected A, and B, in every row or in none (or choose --metric)");
      metrics[i].push_back(std::move(measured));
    }
  });
  return metrics;
}

// The heads and feed-forward networks of the chosen layers and heads, but those that are removed anyway.
std::vector<Component> chosen_components(const AnalyzedModel& model, const MeasuredInput& input,
                                         const AttentionKind& kind, const AblateOptions& options,
                                         const std::vector<Component>& removed) {
  if (!options.each) return {};
  std::vector<Component> components =
      components_of(*model.model, input, kind.stack, kind.part, options.feed_forward, "ablate");
  std::int64_t layers = 0, heads = 0;
  for (const Component& component : components) {
    layers = std::max(layers, component.layer + 1);
    heads = std::max(heads, component.head + 1);
  }
  const auto check = [](const char* option, const std::vector<std::int64_t>& chosen, std::int64_t count) {
    for (const std::int64_t one : chosen) {
      if (one < 0 || one >= count)
        throw OptionError(option, fmt::format("expected {} below {}, got {}", option, count, one));
    }
  };
  check("layers", options.layers, layers);
  check("heads", options.heads, heads);
  const auto chosen = [](const std::vector<std::int64_t>& list, std::int64_t one) {
    return list.empty() || std::find(list.begin(), list.end(), one) != list.end();
  };
  std::erase_if(components, [&](const Component& component) {
    return !chosen(options.layers, component.layer) ||
           (component.head >= 0 && !chosen(options.heads, component.head)) ||
           std::find(removed.begin(), removed.end(), component) != removed.end();
  });
  return components;
}

MeasuredAblation measured(const AnalyzedModel& model, std::span<const MeasuredInput> inputs, bool means,
                          const AblationOptions& options) {
  const AblationResult result = measure_ablations(*model.model, inputs, options);
  std::vector<double> change = result.removed;
  for (std::size_t i = 0; i < change.size(); ++i) change[i] -= result.whole[i];
  MeasuredAblation found{.metric = inputs.front().metric.kind,
                         .means = means,
                         .whole = estimate_of(result.whole, result.weights),
                         .removed = estimate_of(result.removed, result.weights),
                         .removed_change = estimate_of(change, result.weights)};
  for (std::size_t i = 0; i < options.each.size(); ++i) {
    found.each.push_back(estimate_of(result.each[i], result.weights));
    found.changes.push_back(estimate_of(result.effect(i), result.weights));
  }
  return found;
}

// The values of one metric, and their changes, each a column. A divergence is a change itself.
void add_metric(ReportTable& table, const MeasuredAblation& measured, bool removes) {
  const std::string name = name_of(measured.metric);
  std::vector<Estimate> values{measured.whole}, changes{{}};
  if (removes) values.push_back(measured.removed), changes.push_back(measured.removed_change);
  values.insert(values.end(), measured.each.begin(), measured.each.end());
  changes.insert(changes.end(), measured.changes.begin(), measured.changes.end());
  const auto add = [&](const std::string& title, const std::vector<Estimate>& column, std::size_t first) {
    table.columns.push_back(title);
    table.fill_up();
    for (std::size_t row = first; row < column.size(); ++row)
      table.cells[row].back() =
          measured.cell(column[row], fmt::format("without {}, {}", table.rows[row], title));
  };
  add(name, values, 0);
  if (measured.metric == MetricKind::kl) return;
  add("Δ " + name, changes, 1);
  double largest = 0;
  for (const Estimate& change : changes) largest = std::max(largest, std::abs(change.mean));
  for (std::size_t row = 1; row < changes.size(); ++row)
    if (largest > 0) table.cells[row].back().shade = changes[row].mean / largest;
}

std::string component_name(const Component& one) {
  return one.head < 0 ? fmt::format("{}.ff", one.layer) : fmt::format("{}.{}", one.layer, one.head);
}

ReportValue ablation_record(const MeasuredAblation& measured, const std::vector<Component>& each,
                            bool removes) {
  ReportValue record;
  record.add("metric", name_of(measured.metric));
  measured.write(record, "whole", measured.whole);
  if (removes) measured.write(record, "removed", measured.removed);
  if (removes) measured.write(record, "removed_change", measured.removed_change);
  ReportValue heads{ReportValue::List()};
  for (std::size_t i = 0; i < each.size(); ++i) {
    ReportValue& head = heads.push({}).add("layer", each[i].layer);
    if (each[i].head < 0) head.add("part", "feed_forward");
    if (each[i].head >= 0) head.add("head", each[i].head);
    measured.write(head, "value", measured.each[i]);
    measured.write(head, "change", measured.changes[i]);
  }
  return record.add("heads", std::move(heads));
}

}  // namespace

const char* text_of(Replacement replacement) {
  return replacement == Replacement::zero   ? "zeros"
         : replacement == Replacement::mean ? "its mean"
                                            : "that for another text";
}

std::vector<Component> components_named(const std::string& list, const AttentionKind& kind) {
  std::vector<Component> components;
  for (std::size_t begin = 0, end = 0; begin <= list.size() && !list.empty(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    const std::optional<LayerPart> part = parse_layer_part(name);
    if (!part)
      throw OptionError(
          "remove", "expected heads LAYER.HEAD and feed-forward networks LAYER.ff, as 5.1,6.0, got " + name);
    components.push_back({.stack = kind.stack,
                          .part = part->head < 0 ? "feed_forward" : kind.part,
                          .layer = part->layer,
                          .head = part->head});
  }
  return components;
}

Report ablate(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs, const MetricChoice& choice,
              const AblateOptions& options, const std::string& title) {
  if (inputs.empty()) throw Error("ablate: expected a text, got none");
  if (model.reads_files()) required_labels(model, "ablate");
  const AttentionKind kind = analyzed_kind(options.kind, *model.model, "ablate");
  const auto metrics = metric_inputs(model, inputs, choice);
  const bool removes = !options.remove.empty(), means = inputs.size() > 1;
  AblationOptions own{.replacement = options.replacement,
                      .reference = options.reference,
                      .seed = options.seed,
                      .removed = components_named(options.remove, kind)};
  own.each = chosen_components(model, metrics.front().front(), kind, options, own.removed);
  own.progress = [&](std::int64_t done, std::int64_t total) {
    if (options.progress) options.progress(done, total, "ablations");
  };
  const bool prompts = !inputs.front().where.empty();
  const std::string name = prompts ? "prompt" : model.reads();
  const std::string of = means ? fmt::format("{} {}s", inputs.size(), name) : "a " + name;
  ReportTable table{
      .title = fmt::format("Without {}, over {}", options.feed_forward ? "parts" : "attention heads", of),
      .rows_title = "without",
      .legend = fmt::format("{} in the place of the output", text_of(options.replacement)),
      .shade_legend = "changes, by the largest of their column",
      .subtitle = model.name + ": " + title,
      .rows = {"nothing"}};
  if (removes && !own.each.empty()) table.legend += "; each beside " + options.remove;
  if (metrics.front().front().metric.kind != MetricKind::kl) {
    table.legend += "; Δ: the change";
    if (removes && !own.each.empty()) table.legend += ", of each from " + options.remove;
  }
  if (means) table.legend += "; means ± standard error";
  if (removes) table.rows.push_back(options.remove);
  for (const Component& one : own.each) table.rows.push_back(component_name(one));
  table.fill_up();
  Report report;
  report.found.add(name + "s", inputs.size());
  if (removes) report.found.add("remove", options.remove);
  ReportValue records;
  for (const std::vector<MeasuredInput>& one : metrics) {
    const MeasuredAblation found = measured(model, one, means, own);
    report.finite = report.finite && std::isfinite(found.whole.mean);
    add_metric(table, found, removes);
    records.push(ablation_record(found, own.each, removes));
  }
  report.found.add("metrics", std::move(records));
  table.fill_up();
  report.tables = {std::move(table)};
  return report;
}

}  // namespace heed
