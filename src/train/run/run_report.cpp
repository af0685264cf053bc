// Writes the page of a run.
#include "train/run/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/utf8.h"
#include "heed/plot/chart.h"
#include "heed/plot/report.h"
#include "plot/labels.h"

namespace heed {
namespace {

constexpr std::size_t kMostLabels = 20, kShownErrors = 20;

// Figures are black on white: where pages are dark, their colors are turned round.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59606b; --line: #d7dbe0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #171717; --ink: #e6e8ec; --soft: #a3aab5; --line: #373c45; }
  figure svg { filter: invert(0.91) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1160px; padding: 16px 24px 48px; color: var(--ink); background: var(--paper);
  font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", "Noto Sans", sans-serif; }
h1 { font-size: 20px; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 32px 0 8px; }
p { color: var(--soft); margin: 4px 0 8px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 500px), 1fr)); gap: 16px; }
figure { margin: 0; min-width: 0; } figure svg { display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { border-bottom: 1px solid var(--line); padding: 4px 8px 4px 0; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; white-space: pre-line; }
th { color: var(--soft); font-weight: 600; }
.text { width: 42%; } .number { width: 4.2em; font-variant-numeric: tabular-nums; }
@media (max-width: 600px) { table { font-size: 12px; } }
)";

std::string escaped(const std::string& text, std::size_t most = 400) {
  if (text.size() <= most) return plot::escape_markup(text);
  while (most > 0 && !is_utf8_start(text[most])) --most;
  return plot::escape_markup(text.substr(0, most)) + "…";
}

struct Column {
  const char *title, *kind;
};

std::string html_table(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><thead><tr>";
  for (const Column& column : columns)
    html += fmt::format("<th class=\"{}\">{}</th>", column.kind, escaped(column.title));
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", escaped(cell));
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string figure(const std::string& svg) { return "<figure>" + svg + "</figure>\n"; }

std::string scores_table(const RunReport& report) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char* name, const std::optional<Evaluation>& evaluation) {
    if (!evaluation) return;
    rows.push_back({name, "loss", fmt::format("{:.4f}", evaluation->loss)});
    for (const Metric& metric : evaluation->metrics)
      rows.push_back({name, metric.name, fmt::format("{:.2f}", metric.value)});
  };
  add("development", report.development);
  add("test", report.test);
  if (rows.empty()) return "<p>There is no held-out set: only the training loss is known.</p>\n";
  return html_table({{"set", ""}, {"score", ""}, {"of the final model", ""}}, rows);
}

bool has_single_labels(const std::vector<Prediction>& predictions, const std::vector<std::string>& labels) {
  return labels.size() > 1 && std::all_of(predictions.begin(), predictions.end(), [&](const Prediction& p) {
           return p.probabilities.size() == labels.size() &&
                  std::find(labels.begin(), labels.end(), p.right) != labels.end() &&
                  std::find(labels.begin(), labels.end(), p.predicted) != labels.end();
         });
}

// Rows are right labels, columns predicted ones, shaded by the share of the row.
std::string confusion_svg(const std::vector<Prediction>& predictions,
                          const std::vector<std::string>& labels) {
  ReportTable table{.title = "Right labels (rows) and predicted ones",
                    .shade_legend = "share of the row",
                    .full_shade = "100 %"};
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  std::map<std::string, std::int64_t> totals;
  for (const Prediction& p : predictions) ++counts[{p.right, p.predicted}], ++totals[p.right];
  std::vector<std::string> shown = labels;
  std::stable_sort(shown.begin(), shown.end(),
                   [&](const std::string& a, const std::string& b) { return totals[a] > totals[b]; });
  shown.resize(std::min(shown.size(), kMostLabels));
  for (const std::string& right : shown) {
    for (const std::string& predicted : shown) {
      const std::int64_t count = counts[{right, predicted}];
      ReportCell& cell = table.cell(right, predicted);
      cell.text = fmt::format("{}", count);
      cell.value = static_cast<double>(count);
      if (totals[right] > 0) cell.shade = static_cast<double>(count) / static_cast<double>(totals[right]);
    }
  }
  if (labels.size() > shown.size())
    table.legend = fmt::format("the {} most frequent of {} labels", shown.size(), labels.size());
  return table_svg(table);
}

// Guo et al. 2017, "On calibration of modern neural networks": ten bins of the probability of what is
// predicted, and in each how often it is right.
std::string reliability_svg(const std::vector<Prediction>& predictions) {
  constexpr std::size_t kBins = 10;
  std::array<double, kBins> count{}, sum{}, hits{};
  for (const Prediction& p : predictions) {
    const double most = *std::max_element(p.probabilities.begin(), p.probabilities.end());
    const auto bin = std::min(kBins - 1, static_cast<std::size_t>(most * kBins));
    ++count[bin], sum[bin] += most, hits[bin] += p.right == p.predicted;
  }
  ChartSeries series{"model", {}, {}, true};
  double error = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if (count[bin] == 0) continue;
    series.x.push_back(sum[bin] / count[bin]);
    series.y.push_back(hits[bin] / count[bin]);
    error += std::abs(hits[bin] - sum[bin]) / static_cast<double>(predictions.size());
  }
  LineChart chart{.title = fmt::format("Reliability: expected calibration error {:.1f} %", 100 * error),
                  .x_label = "probability of the predicted label",
                  .y_label = "share that is right",
                  .width = 540,
                  .height = 330};
  chart.series = {std::move(series), {"as it should be", {0, 1}, {0, 1}}};
  return line_chart_svg(chart);
}

// The wrong predictions, those of the largest loss first, or, where losses are unknown, the first ones.
std::string errors_table(const std::vector<Prediction>& predictions) {
  std::vector<const Prediction*> wrong;
  for (const Prediction& p : predictions)
    if (p.right != p.predicted) wrong.push_back(&p);
  std::stable_sort(wrong.begin(), wrong.end(), [](const Prediction* a, const Prediction* b) {
    return std::isfinite(a->loss) && std::isfinite(b->loss) && a->loss > b->loss;
  });
  const std::size_t all = wrong.size();
  wrong.resize(std::min(all, kShownErrors));
  std::vector<std::vector<std::string>> rows;
  for (const Prediction* p : wrong)
    rows.push_back(
        {p->text, p->right, p->predicted, std::isfinite(p->loss) ? fmt::format("{:.3f}", p->loss) : ""});
  return fmt::format("<p>{} of {} predictions differ from what is right; {} are shown.</p>\n", all,
                     predictions.size(), wrong.size()) +
         html_table({{"example", "text"}, {"right", ""}, {"predicted", ""}, {"loss", "number"}}, rows);
}

std::string held_out(const char* name, const std::optional<Evaluation>& evaluation,
                     const std::vector<std::string>& labels) {
  if (!evaluation || evaluation->predictions.empty()) return "";
  const std::vector<Prediction>& predictions = evaluation->predictions;
  if (predictions.front().tokens > 0) return "";  // of texts, samples are shown
  std::string html = fmt::format("<h2>Predictions on the {} set</h2>\n", name);
  if (has_single_labels(predictions, labels))
    html += "<div class=\"figures\">\n" + figure(confusion_svg(predictions, labels)) +
            figure(reliability_svg(predictions)) + "</div>\n";
  return html + errors_table(predictions);
}

std::string samples_table(const std::vector<Prediction>& samples) {
  if (samples.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const Prediction& sample : samples) rows.push_back({sample.text, sample.predicted, sample.right});
  return "<h2>Samples</h2>\n<p>Beginnings of texts, which the final model continues with the likeliest "
         "tokens.</p>\n" +
         html_table({{"beginning", "text"}, {"the model", ""}, {"the text", ""}}, rows);
}

std::string data_tables(const DataSummary& data) {
  std::string html;
  for (const ReportTable& table : data_report(data).tables) {
    std::vector<Column> columns{{"", ""}};
    for (const std::string& column : table.columns) columns.push_back({column.c_str(), ""});
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      std::vector<std::string>& row = rows.emplace_back(1, table.rows[i]);
      for (const ReportCell& cell : table.cells[i]) row.push_back(cell.text);
    }
    html +=
        fmt::format("<h2>{}</h2>\n", table.title == "data" ? "Data" : "Labels") + html_table(columns, rows);
    if (!table.legend.empty()) html += "<p>" + escaped(table.legend) + "</p>\n";
  }
  return html;
}

}  // namespace

std::string run_report_html(const RunReport& report, const RunLog& log) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n"
      "<body>\n<h1>{0}</h1>\n",
      escaped(report.title), kStyle);
  html += scores_table(report) + "<h2>Curves</h2>\n<div class=\"figures\">\n";
  for (const LineChart& chart : log.charts()) html += figure(line_chart_svg(chart));
  html += "</div>\n" + held_out("development", report.development, report.labels) +
          held_out("test", report.test, report.labels) + samples_table(report.samples) +
          data_tables(report.data);
  return html + "</body>\n</html>\n";
}

}  // namespace heed
