// What makes a head attend: the score of a query and a key as a sum over pairs of parts of two streams.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "analyses/means.h"
#include "heed/analyses/analyses.h"
#include "inspect/stream_sum.h"
#include "plot/labels.h"

namespace heed {
namespace {

constexpr std::size_t kFigureParts = 14;  // rows and columns of the figure, the rest is summed

// Of means: standard errors. Empty for one text.
struct ScoreErrors {
  double score = 0, weight = 0;
  std::vector<double> query = {}, key = {};     // of the sums over the other side
  std::vector<std::vector<double>> pairs = {};  // [query_parts, key_parts]
};

struct Explained {
  ScoreAttribution score;
  inspect::ScoreSides sides;
  ScoreErrors errors = {};

  bool means() const { return !errors.query.empty(); }
  std::size_t queries() const { return score.query_parts.size(); }
  std::size_t keys() const { return score.key_parts.size(); }
  std::string with_error(double value, double error) const {
    return means() ? fmt::format("{:.3f} ± {:.3f}", value, error) : fmt::format("{:.3f}", value);
  }
  std::string totals(const char* equals) const {
    return fmt::format("score {}{}, weight {}", with_error(score.score, errors.score), equals,
                       with_error(score.weight, errors.weight));
  }
};

// The means of several scores, whose parts are the same.
Explained mean_of(const std::vector<ScoreAttribution>& scores) {
  Explained mean{.score = scores.front(), .sides = {}};
  const auto set = [](double& value, double& error, const Estimate& by) {
    value = by.mean;
    error = by.error;
  };
  set(mean.score.score, mean.errors.score, estimate(scores, [](const auto& one) { return one.score; }));
  set(mean.score.weight, mean.errors.weight, estimate(scores, [](const auto& one) { return one.weight; }));
  mean.score.position_bias = estimate(scores, [](const auto& one) { return one.position_bias; }).mean;
  mean.errors.pairs.assign(mean.queries(), std::vector<double>(mean.keys()));
  for (std::size_t i = 0; i < mean.queries(); ++i) {
    for (std::size_t j = 0; j < mean.keys(); ++j)
      set(mean.score.pairs[i][j], mean.errors.pairs[i][j],
          estimate(scores, [&](const auto& one) { return one.pairs[i][j]; }));
  }
  std::vector<inspect::ScoreSides> sides;
  for (const ScoreAttribution& score : scores) sides.push_back(inspect::sides_of(score));
  for (std::size_t i = 0; i < mean.queries(); ++i)
    mean.errors.query.push_back(
        estimate(sides, [&](const inspect::ScoreSides& one) { return one.query[i]; }).error);
  for (std::size_t i = 0; i < mean.keys(); ++i)
    mean.errors.key.push_back(
        estimate(sides, [&](const inspect::ScoreSides& one) { return one.key[i]; }).error);
  mean.sides = inspect::sides_of(mean.score);
  return mean;
}

double largest_of(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

std::string signed_number(double x, int digits = 3) {
  const std::string text = fmt::format("{:+.{}f}", x, digits);
  return std::strtod(text.c_str(), nullptr) == 0 ? text.substr(1) : text;  // no sign for what rounds to 0
}

// A cell of a column of contributions, shaded by its part of the largest.
ReportCell contribution(double x, double most, std::optional<double> error = {}) {
  return {signed_number(x) + (error ? fmt::format(" ± {:.3f}", *error) : ""), most > 0 ? x / most : 0};
}

ReportTable pairs_table(const Explained& e, std::size_t top_k, const std::string& title) {
  std::vector<double> all;
  for (const auto& row : e.score.pairs) all.insert(all.end(), row.begin(), row.end());
  const std::vector<std::size_t> order = inspect::largest(all, top_k);
  const double most = std::abs(all[order.front()]), magnitude = e.sides.magnitude;
  ReportTable table{.title = title,
                    .rows_title = "query part",
                    .legend = e.totals(" = the sum") + "; share: of the sum of absolute values",
                    .columns = {"key part", "adds", "share"}};
  const auto add = [&](std::string query, std::string key, double adds, double share,
                       std::optional<double> error = {}) {
    table.rows.push_back(std::move(query));
    table.cells.push_back({{std::move(key)},
                           contribution(adds, most, error),
                           {fmt::format("{:.1f} %", magnitude > 0 ? 100 * std::abs(share) / magnitude : 0)}});
  };
  double rest = e.score.score - e.score.position_bias, rest_magnitude = magnitude;
  for (const std::size_t i : order) {
    const std::size_t query = i / e.keys(), key = i % e.keys();
    add(inspect::part_label(e.score.query_parts[query]), inspect::part_label(e.score.key_parts[key]), all[i],
        all[i], e.means() ? std::optional(e.errors.pairs[query][key]) : std::nullopt);
    rest -= all[i];
    rest_magnitude -= std::abs(all[i]);
  }
  if (order.size() < all.size())
    add("others", fmt::format("{} pairs", all.size() - order.size()), rest,
        rest_magnitude - std::abs(e.score.position_bias));
  if (e.score.position_bias != 0) add("positions", "", e.score.position_bias, e.score.position_bias);
  return table;
}

// The strongest parts of one side, and the rest, as two columns.
void add_side(ReportTable& table, const char* title, const std::vector<StreamPart>& parts,
              const std::vector<double>& sums, const std::vector<double>& errors, std::size_t top_k) {
  const std::vector<std::size_t> order = inspect::largest(sums, top_k);
  const double most = largest_of(sums);
  std::vector<std::vector<ReportCell>> lines;
  double rest = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (const std::size_t i : order) {
    const auto error = errors.empty() ? std::nullopt : std::optional(errors[i]);
    lines.push_back({{inspect::part_label(parts[i])}, contribution(sums[i], most, error)});
    rest -= sums[i];
  }
  if (order.size() < sums.size())
    lines.push_back({{fmt::format("{} others", sums.size() - order.size())}, contribution(rest, most)});
  if (table.rows.size() < lines.size()) table.rows.resize(lines.size());
  table.fill_up();
  table.columns.insert(table.columns.end(), {title, "adds"});
  for (std::size_t i = 0; i < lines.size(); ++i)
    table.cells[i].insert(table.cells[i].end(), lines[i].begin(), lines[i].end());
  table.fill_up();
}

// Rows or columns of the figure: groups of parts, the strongest alone in the order of the layers, the others
// together.
struct FigureParts {
  std::vector<std::string> labels;
  std::vector<std::vector<std::size_t>> groups;
};

FigureParts figure_parts(const std::vector<StreamPart>& parts, const std::vector<double>& magnitudes) {
  std::vector<std::size_t> chosen = inspect::largest(magnitudes, kFigureParts);
  std::sort(chosen.begin(), chosen.end());
  FigureParts result;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (std::binary_search(chosen.begin(), chosen.end(), i)) {
      result.labels.push_back(inspect::part_label(parts[i]));
      result.groups.push_back({i});
    } else {
      others.push_back(i);
    }
  }
  if (!others.empty()) {
    result.labels.push_back(fmt::format("{} others", others.size()));
    result.groups.push_back(others);
  }
  return result;
}

double sum_of(const std::vector<std::vector<double>>& pairs, const std::vector<std::size_t>& rows,
              const std::vector<std::size_t>& columns) {
  double sum = 0;
  for (const std::size_t i : rows) {
    for (const std::size_t j : columns) sum += pairs[i][j];
  }
  return sum;
}

ReportTable figure_of(const Explained& e, const std::string& title) {
  std::vector<double> query_mass(e.queries()), key_mass(e.keys());
  for (std::size_t i = 0; i < e.queries(); ++i) {
    for (std::size_t j = 0; j < e.keys(); ++j) {
      query_mass[i] += std::abs(e.score.pairs[i][j]);
      key_mass[j] += std::abs(e.score.pairs[i][j]);
    }
  }
  const FigureParts rows = figure_parts(e.score.query_parts, query_mass),
                    columns = figure_parts(e.score.key_parts, key_mass);
  ReportTable table{.title = title,
                    .rows_title = "query part",
                    .legend = e.totals("") + "; rows: parts of the query, columns: of the key",
                    .shade_legend = "what a pair adds",
                    .rows = rows.labels,
                    .columns = columns.labels};
  if (e.score.position_bias != 0)
    table.legend += fmt::format("; positions add {}", signed_number(e.score.position_bias));
  table.rows.emplace_back("sum");
  table.columns.emplace_back("sum");
  table.fill_up();
  const auto cell = [](double x, const std::string& row, const std::string& column) {
    return ReportCell{signed_number(x, 2), 0, fmt::format("{} × {}: {}", row, column, signed_number(x, 4)),
                      x};
  };
  double most = 0;  // of the pairs that have a cell, which alone are shaded
  std::vector<double> down(columns.groups.size());
  for (std::size_t i = 0; i < rows.groups.size(); ++i) {
    double across = 0;
    for (std::size_t j = 0; j < columns.groups.size(); ++j) {
      const double sum = sum_of(e.score.pairs, rows.groups[i], columns.groups[j]);
      ReportCell& own = table.cells[i][j] = cell(sum, rows.labels[i], columns.labels[j]);
      across += sum;
      down[j] += sum;
      if (rows.groups[i].size() != 1 || columns.groups[j].size() != 1) continue;
      own.shade = sum;
      most = std::max(most, std::abs(sum));
      if (e.means()) own.error = e.errors.pairs[rows.groups[i].front()][columns.groups[j].front()];
    }
    table.cells[i].back() = cell(across, rows.labels[i], "all");
  }
  for (std::size_t j = 0; j < down.size(); ++j)
    table.cells.back()[j] = cell(down[j], "all", columns.labels[j]);
  table.cells.back().back() = cell(std::accumulate(down.begin(), down.end(), 0.0), "all", "all");
  table.full_shade = fmt::format("{:.2g}", most);
  for (auto& row : table.cells) {
    for (ReportCell& own : row) own.shade = most > 0 ? own.shade / most : 0;
  }
  return table;
}

ReportValue parts_of(const std::vector<StreamPart>& parts, const std::vector<double>& sums,
                     const std::vector<double>& errors) {
  ReportValue records{ReportValue::List()};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ReportValue& record = add_part(records, parts[i]).add("sum", sums[i]);
    if (!errors.empty()) record.add("sum_error", errors[i]);
  }
  return records;
}

// What a side of the score is: its tokens, or the parts of a file.
std::vector<std::string> positions_of(const AnalyzedModel& model, const AnalyzedInput& input, bool source) {
  return model.reads_files() ? input.parts : model.tokens(source ? input.source_ids : input.ids);
}

std::string position_text(const AnalyzedModel& model, const std::vector<std::string>& names,
                          std::int64_t position) {
  const std::string& name = names[static_cast<std::size_t>(position)];
  return fmt::format("{} ({})", plot::visible(model.reads_files() ? name : model.shown({name}).front()),
                     position);
}

ReportValue position_of(const std::vector<std::string>& names, std::int64_t position) {
  return ReportValue().add("position", position).add("token", names[static_cast<std::size_t>(position)]);
}

}  // namespace

Report attribute_to_score(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
                          const AttributeScoreOptions& options, const std::string& title) {
  const AttentionKind kind = analyzed_kind(options.kind, *model.model, "attribute score");
  const LayerPart head = options.head;
  const bool encoder = kind.stack == std::string("encoder"), means = are_means(inputs);
  std::vector<ScoreAttribution> scores;
  std::vector<std::string> queries, keys;
  std::int64_t query = 0;
  for_each_input(inputs, [&](const AnalyzedInput& input) {
    queries = positions_of(model, input, encoder);
    keys = positions_of(model, input, encoder || !kind.is_self());
    query = options.query.value_or(std::ssize(queries) - 1);
    check_position_option("query", query, queries.size());
    if (options.key) check_position_option("key", *options.key, keys.size());
    scores.push_back(attribute_score(*model.model, input.inputs,
                                     {.stack = kind.stack,
                                      .part = kind.part,
                                      .layer = head.layer,
                                      .head = head.head,
                                      .query = query,
                                      .key = options.key}));
  });
  const Explained e = means ? mean_of(scores)
                            : Explained{.score = scores.front(), .sides = inspect::sides_of(scores.front())};
  Report report{.finite = std::isfinite(e.score.score)};
  std::string heading = fmt::format("Why {}head {}.{} attends", kind.is_self() ? "" : "cross-attention's ",
                                    head.layer, head.head);
  report.found.add("kind", kind.name).add("layer", head.layer).add("head", head.head);
  if (means) {
    report.found.add("prompts", inputs.size());
    heading += fmt::format(", mean of {} prompts", inputs.size());
  } else {
    report.found.add("query", position_of(queries, query)).add("key", position_of(keys, e.score.key));
    heading += fmt::format(" from {} to {}", position_text(model, queries, query),
                           position_text(model, keys, e.score.key));
  }
  report.found.add("score", e.score.score).add("weight", e.score.weight);
  if (means) report.found.add("score_error", e.errors.score).add("weight_error", e.errors.weight);
  report.found.add("position_bias", e.score.position_bias);
  report.found.add("query_parts", parts_of(e.score.query_parts, e.sides.query, e.errors.query));
  report.found.add("key_parts", parts_of(e.score.key_parts, e.sides.key, e.errors.key));
  report.found.add("pairs", e.score.pairs);
  if (means) report.found.add("pair_errors", e.errors.pairs);
  const auto top_k = static_cast<std::size_t>(options.top_k);
  ReportTable sides{.title = "Summed over the other side"};
  add_side(sides, "query part", e.score.query_parts, e.sides.query, e.errors.query, top_k);
  add_side(sides, "key part", e.score.key_parts, e.sides.key, e.errors.key, top_k);
  report.tables = {pairs_table(e, top_k, heading), std::move(sides)};
  report.figure = figure_of(e, heading);
  report.figure->subtitle = model.name + ": " + title;
  return report;
}

}  // namespace heed
