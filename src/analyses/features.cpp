// Features of sparse autoencoders and transcoders as reports.
#include "heed/inspect/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/strings.h"
#include "heed/analyses/analyses.h"
#include "heed/autograd.h"
#include "plot/labels.h"

namespace heed {
namespace {

constexpr std::size_t kContext = 4;  // tokens before and after one that activates a feature

std::vector<std::size_t> largest_first(const std::vector<double>& values, std::int64_t top) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = std::min(static_cast<std::size_t>(top), order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::size_t a, std::size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(count);
  return order;
}

// The tokens of the stack that the coder reads.
std::vector<std::string> tokens_read(const AnalyzedModel& model, const AnalyzedInput& input,
                                     const FeatureSites& sites) {
  return model.tokens(sites.reads.starts_with("encoder") && !input.source_ids.empty() ? input.source_ids
                                                                                      : input.ids);
}

std::string sites_text(const FeatureSites& sites) {
  return sites.reads == sites.writes ? sites.reads : sites.reads + " → " + sites.writes;
}

// How many of the logits are of tokens that the tokenizer names.
std::size_t named_tokens(const AnalyzedModel& model, std::size_t logits) {
  return std::min(logits, static_cast<std::size_t>(model.tokenizer()->vocab_size()));
}

// Whether logits are read from the sum that the coder writes to.
bool writes_to_stream(const AnalyzedModel& model, const SparseCoder& coder, const FeatureSites& sites) {
  const std::optional<ReadOut> read_out = model.model->read_out();
  return read_out && !read_out->transform.dense && sites.writes.starts_with("decoder.layers.") &&
         !sites.writes.ends_with(".heads") && !sites.writes.ends_with(".inner") &&
         coder.outputs() == read_out->output.weight.size(1);
}

// Tokens with a number each, as a list of the report and as two columns, which begin at `column`.
void add_tokens(Report& report, ReportTable& table, const AnalyzedModel& model, const char* list,
                const char* member, const std::vector<std::size_t>& ids, const std::vector<double>& numbers,
                const char* format, double full) {
  ReportValue records{ReportValue::List()};
  if (table.rows.size() < ids.size()) table.rows.resize(ids.size());
  table.cells.resize(table.rows.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    const double number = numbers[ids[i]];
    records.push({}).add("id", id).add("token", model.tokens({id}).front()).add(member, number);
    table.cells[i].push_back({plot::visible(model.shown(id))});
    table.cells[i].push_back({fmt::format(fmt::runtime(format), number), full > 0 ? number / full : 0});
  }
  report.found.add(list, std::move(records));
}

// Where a feature is active.
struct Occurrence {
  double activation;
  std::size_t text, position;
  std::string token, before, after;
};

void add_activations(std::vector<Occurrence>& found, const AnalyzedModel& model, const AnalyzedInput& input,
                     std::size_t text, const SparseCoder& coder, std::int64_t feature,
                     const FeatureSites& sites) {
  const std::vector<std::string> shown = model.shown(tokens_read(model, input, sites));
  const std::vector<float> values =
      feature_activations(*model.model, input.inputs, coder, sites).values.to_vector<float>();
  for (std::size_t t = 0; t < shown.size(); ++t) {
    const float value =
        values[t * static_cast<std::size_t>(coder.features()) + static_cast<std::size_t>(feature)];
    if (!(value > 0)) continue;
    Occurrence one{value, text, t, shown[t], "", ""};
    for (std::size_t j = t > kContext ? t - kContext : 0; j < t; ++j) one.before += shown[j];
    for (std::size_t j = t + 1; j < std::min(shown.size(), t + 1 + kContext); ++j) one.after += shown[j];
    found.push_back(std::move(one));
  }
}

// The tokens that a feature's direction speaks for, and against.
void add_promoted(Report& report, const AnalyzedModel& model, const SparseCoder& coder, std::int64_t feature,
                  std::int64_t top_k) {
  std::vector<double> logits = feature_logits(*model.model, coder, feature);
  logits.resize(named_tokens(model, logits.size()));
  std::vector<double> opposite;
  double most = 0;
  for (const double x : logits) {
    opposite.push_back(-x);
    most = std::max(most, std::abs(x));
  }
  ReportTable table{.title = "Tokens that its direction speaks for, and against",
                    .legend = "logits of the direction, by the gain of the final norm alone",
                    .columns = {"for", "logit", "against", "logit"}};
  add_tokens(report, table, model, "promoted", "logit", largest_first(logits, top_k), logits, "{:+.3f}",
             most);
  add_tokens(report, table, model, "suppressed", "logit", largest_first(opposite, top_k), logits, "{:+.3f}",
             most);
  report.tables.push_back(std::move(table));
}

std::vector<double> probabilities(const float* logits, std::int64_t count) {
  const double most = *std::max_element(logits, logits + count);
  std::vector<double> p(static_cast<std::size_t>(count));
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += p[static_cast<std::size_t>(i)] = std::exp(static_cast<double>(logits[i]) - most);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

Report features_of_tokens(const AnalyzedModel& model, const AnalyzedInput& input, const SparseCoder& coder,
                          const FeaturesOptions& options) {
  const std::vector<std::string> tokens = tokens_read(model, input, options.sites),
                                 shown = model.shown(tokens);
  const FeatureActivations found = feature_activations(*model.model, input.inputs, coder, options.sites);
  const std::vector<float> values = found.values.to_vector<float>();
  const auto width = static_cast<std::size_t>(coder.features());
  Report report{.finite = std::isfinite(found.explained)};
  ReportTable table{.title = "Features of each token at " + sites_text(options.sites),
                    .rows_title = "token",
                    .legend = fmt::format(
                        "{:.1f} of {} features are active at a token; together they explain {:.1f} % of the "
                        "variance",
                        found.active_features, width, 100 * found.explained),
                    .shade_legend = "activation",
                    .subtitle = model.name + ": " + input.title,
                    .rows = shown,
                    .columns = {"strongest"}};
  table.fill_up();
  const float most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  table.full_shade = fmt::format("{:.2g}", most);
  report.found.add("reads", options.sites.reads).add("writes", options.sites.writes);
  report.found.add("explained", found.explained).add("active_features", found.active_features);
  ReportValue of_tokens{ReportValue::List()};
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(t * width);
    const std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(width));
    ReportValue features{ReportValue::List()};
    for (const std::size_t feature : largest_first(row, options.top_k)) {
      if (!(row[feature] > 0)) break;
      const std::size_t column = features.list().size();
      if (column == table.columns.size()) {
        table.columns.push_back(std::to_string(column + 1) + ".");
        table.fill_up();
      }
      table.cells[t][column] = {fmt::format("{} {:.2f}", feature, row[feature]),
                                row[feature] / static_cast<double>(most),
                                fmt::format("{}: feature {}, {:.4f}", shown[t], feature, row[feature])};
      features.push({}).add("feature", feature).add("activation", row[feature]);
    }
    of_tokens.push({}).add("token", tokens[t]).add("features", std::move(features));
  }
  report.found.add("tokens", std::move(of_tokens));
  report.tables = {std::move(table)};
  return report;
}

Report feature_in_texts(const AnalyzedModel& model, std::span<const std::string> texts,
                        const std::optional<std::string>& target, const SparseCoder& coder,
                        std::int64_t feature, const FeaturesOptions& options, const std::string& title) {
  if (feature >= coder.features())
    throw OptionError("feature",
                      fmt::format("expected a feature below {}, got {}", coder.features(), feature));
  std::vector<Occurrence> found;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    add_activations(found, model, text_input(model, texts[i], target), i, coder, feature, options.sites);
    if (options.progress) options.progress(static_cast<std::int64_t>(i + 1), std::ssize(texts), "texts");
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Occurrence& a, const Occurrence& b) { return a.activation > b.activation; });
  const std::size_t active = found.size();
  found.resize(std::min(found.size(), static_cast<std::size_t>(options.top_k)));
  ReportTable table{.title = fmt::format("Feature {} at {}", feature, sites_text(options.sites)),
                    .rows_title = "activation",
                    .legend = fmt::format("active at {} token{} of {} text{}", active, active == 1 ? "" : "s",
                                          texts.size(), texts.size() == 1 ? "" : "s"),
                    .subtitle = model.name + ": " + title,
                    .columns = {"token", "in"}};
  Report report;
  report.found.add("feature", feature).add("active_tokens", active);
  ReportValue strongest{ReportValue::List()};
  for (const Occurrence& one : found) {
    table.rows.push_back(fmt::format("{:.3f}", one.activation));
    table.cells.push_back({{plot::visible(one.token), one.activation / found.front().activation},
                           {one.before + "[" + one.token + "]" + one.after}});
    strongest.push({})
        .add("activation", one.activation)
        .add("text", one.text)
        .add("position", one.position)
        .add("token", one.token);
  }
  report.found.add("strongest", std::move(strongest));
  if (!found.empty()) report.tables.push_back(table);
  if (writes_to_stream(model, coder, options.sites))
    add_promoted(report, model, coder, feature, options.top_k);
  if (!report.tables.empty()) return report;
  table.rows = {"-"};
  table.cells = {{{"none"}, {""}}};
  report.tables = {std::move(table)};
  return report;
}

Report scaled_features(const AnalyzedModel& model, const AnalyzedInput& input, const SparseCoder& coder,
                       const std::map<std::int64_t, double>& factors, const FeaturesOptions& options) {
  const NoGradients guard;
  if (!model.model->read_out())
    throw Error("features: expected a model that predicts tokens for --scale, got " + model.model->family());
  const Tensor before = model.model->forward(input.inputs).at("logits").contiguous();
  Taps taps;
  scale_features(taps, coder, options.sites, factors);
  Context context{.taps = &taps};
  const Tensor after = model.model->forward(input.inputs, {}, context).at("logits").contiguous();
  taps.require_all_fired();
  const std::int64_t vocabulary = before.size(2), positions = before.size(1);
  double divergence = 0;
  std::vector<double> p, q;
  for (std::int64_t t = 0; t < positions; ++t) {
    p = probabilities(before.data<float>() + t * vocabulary, vocabulary);
    q = probabilities(after.data<float>() + t * vocabulary, vocabulary);
    for (std::size_t i = 0; i < p.size(); ++i)
      divergence += p[i] > 0 ? p[i] * std::log(p[i] / std::max(q[i], 1e-300)) : 0;
  }
  divergence /= static_cast<double>(positions);
  const std::string what =
      joined(factors, ", ", [](const auto& one) { return fmt::format("{} × {:g}", one.first, one.second); });
  ReportTable table{
      .title = fmt::format("Predicted after the text, with feature {}", what),
      .legend = fmt::format("KL divergence {:.4f} nats on average over the positions", divergence),
      .shade_legend = "probability",
      .subtitle = model.name + ": " + input.title,
      .columns = {"before", "", "after", ""}};
  Report report{.finite = std::isfinite(divergence)};
  report.found.add("divergence", divergence);
  for (auto* all : {&p, &q}) all->resize(named_tokens(model, all->size()));
  add_tokens(report, table, model, "before", "probability", largest_first(p, options.top_k), p, "{:.3f}", 1);
  add_tokens(report, table, model, "after", "probability", largest_first(q, options.top_k), q, "{:.3f}", 1);
  report.tables = {std::move(table)};
  return report;
}

Report steering_report(const AnalyzedModel& model, std::span<const SteeringDirection> directions,
                       const std::string& title) {
  ReportTable table{
      .title = "Steering vectors",
      .rows_title = "layer",
      .legend =
          "length of the vector; stream: mean length of the texts' streams; separated: share of "
          "the texts on the right side of the middle",
      .subtitle = model.name + ": " + title};
  Report report{.found = ReportValue(ReportValue::List())};
  for (const SteeringDirection& one : directions) {
    double squares = 0;
    for (const double number : one.vector.vector.to(DType::f64).to_vector<double>())
      squares += number * number;
    table.rows.push_back(std::to_string(one.vector.layer));
    report.found.push({})
        .add("stack", one.vector.stack)
        .add("layer", one.vector.layer)
        .add("length", std::sqrt(squares))
        .add("stream", one.stream)
        .add("separated", one.separated);
  }
  add_column(table, report.found, {.title = "length", .format = "{:.4g}"});
  add_column(table, report.found, {.title = "stream", .format = "{:.4g}"});
  add_column(table, report.found, {.title = "separated", .shade = ReportShade::value});
  report.tables = {std::move(table)};
  return report;
}

}  // namespace heed
