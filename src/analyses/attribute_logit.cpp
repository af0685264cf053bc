// Direct logit attribution, of one text or as a mean over prompts.
#include <fmt/format.h>

#include <cmath>

#include "analyses/means.h"
#include "heed/analyses/analyses.h"

namespace heed {
namespace {

// The column of a part in the table of its layer.
std::string logit_column(const LogitPart& part) {
  const std::string kind = part.name == "cross_attn" ? "cross " : part.name == "self_attn" ? "head " : "";
  if (part.head >= 0) return kind + std::to_string(part.head);
  if (part.name == "feed_forward") return "ff";
  if (part.name == "steering") return part.name;
  if (part.name == "feed_forward_norm") return "ff norm";
  if (part.name == "cross_attn_norm") return "cross norm";
  if (part.name == "self_attn_norm") return "norm";
  return (part.name == "cross_attn" ? "cross " : "") + std::string("bias");
}

// The logit of a token, less that of another.
LogitAttribution attribution_of(const AnalyzedModel& model, const AnalyzedInput& input,
                                const LogitMetric& metric) {
  const std::int64_t position = metric.position.value_or(std::ssize(input.ids) - 1);
  check_position_option("position", position, input.ids.size());
  LogitAttribution whole = attribute_logit(*model.model, input.inputs, position, *metric.token);
  if (!metric.other) return whole;
  const LogitAttribution other = attribute_logit(*model.model, input.inputs, position, *metric.other);
  for (std::size_t i = 0; i < whole.parts.size(); ++i) whole.parts[i].logit -= other.parts[i].logit;
  whole.logit -= other.logit;
  return whole;
}

// What is attributed: of one text, its tokens and position; of prompts, how many.
ReportValue subject_of(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
                       const LogitMetric& metric, ReportTable& table) {
  ReportValue found;
  if (are_means(inputs)) {
    table.title =
        fmt::format("Logit of A{}, mean of {} prompts", metric.other ? " less that of B" : "", inputs.size());
    return found.add("prompts", inputs.size());
  }
  const std::vector<std::int64_t>& ids = inputs.front().ids;
  const std::int64_t position = metric.position.value_or(std::ssize(ids) - 1);
  table.title = fmt::format("Logit of {}{} after {} (position {})", model.shown(*metric.token),
                            metric.other ? " less that of " + model.shown(*metric.other) : "",
                            model.shown(ids[static_cast<std::size_t>(position)]), position);
  found.add("token", model.tokens({*metric.token}).front()).add("id", *metric.token);
  if (metric.other) found.add("other", model.tokens({*metric.other}).front()).add("other_id", *metric.other);
  return found.add("position", position);
}

}  // namespace

Report attribute_to_logit(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
                          const MetricChoice& choice, const std::string& title) {
  const bool means = are_means(inputs);
  std::vector<LogitAttribution> all;
  LogitMetric metric;
  for_each_input(inputs, [&](const AnalyzedInput& input) {
    const bool differs = metric.other.has_value();
    metric = metric_of(choice, model, input, MetricKind::logit);
    if (!metric.token && means) throw Error("A: expected a token, got none (or choose --token)");
    if (!metric.token) throw OptionError("token", "missing (the token whose logit is attributed)");
    if (!all.empty() && differs != metric.other.has_value())
      throw Error("B: expected a token in every row or in none");
    all.push_back(attribution_of(model, input, metric));
  });
  const Estimate logit = estimate(all, [](const LogitAttribution& one) { return one.logit; });
  ReportTable table{.rows_title = "layer",
                    .shade_legend = "what a part adds to the logit",
                    .subtitle = model.name + ": " + title};
  Report report{.found = subject_of(model, inputs, metric, table), .finite = std::isfinite(logit.mean)};
  ReportValue parts{ReportValue::List()};
  std::string rest;
  for (std::size_t i = 0; i < all.front().parts.size(); ++i) {
    const LogitPart& part = all.front().parts[i];
    const Estimate one = estimate(all, [&](const LogitAttribution& of) { return of.parts[i].logit; });
    ReportValue& record = add_part(parts, part).add("logit", one.mean);
    if (means) record.add("error", one.error);
    if (part.layer < 0) {
      rest += fmt::format("{}{} {:+.3f}", rest.empty() ? "" : ", ", part.name, one.mean);
      continue;
    }
    ReportCell& cell = table.cell(std::to_string(part.layer), logit_column(part));
    cell = {fmt::format("{:+.2f}", one.mean), 0,
            fmt::format("layer {}, {}: {:+.4f}", part.layer, logit_column(part), one.mean), one.mean};
    if (!means) continue;
    cell.error = one.error;
    cell.text += fmt::format(" ± {:.2f}", one.error);
  }
  const double largest = largest_magnitude(parts, "logit");
  table.fill_up();
  for (auto& row : table.cells) {
    for (ReportCell& cell : row) cell.shade = largest > 0 ? cell.value.value_or(0) / largest : 0;
  }
  table.legend = fmt::format("logit {:.3f} = the sum of the table, {}", logit.mean, rest);
  table.full_shade = fmt::format("{:.2g}", largest);
  report.found.add("logit", logit.mean).add("parts", std::move(parts));
  report.tables = {std::move(table)};
  return report;
}

}  // namespace heed
