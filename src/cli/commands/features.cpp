// heed features: what a sparse autoencoder or a transcoder finds in a model's activations, and what the model
// does without a feature, or with more of it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/inspect/features.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::cli {
namespace {

struct FeaturesArguments {
  std::string text;
  std::optional<std::string> target, reads, writes;
  std::vector<std::string> scale;
  std::optional<std::int64_t> feature;
  std::filesystem::path coder, texts;
  TableOutput output;
  ModelChoice model;
  std::int64_t top_k = 5;
};

constexpr std::size_t kContext = 4;  // tokens before and after one that activates a feature

// N=F
std::map<std::int64_t, double> factors_of(const std::vector<std::string>& items) {
  std::map<std::int64_t, double> factors;
  for (const std::string& item : items) {
    std::int64_t feature = -1;
    double factor = 0;
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || !parse_number(item.substr(0, equals), feature) || feature < 0 ||
        !parse_number(item.substr(equals + 1), factor) || !std::isfinite(factor))
      throw UsageError("--scale: expected FEATURE=FACTOR, as 17=0, got " + item);
    factors[feature] = factor;
  }
  return factors;
}

std::vector<std::size_t> largest_first(const std::vector<double>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::size_t a, std::size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(count);
  return order;
}

// A model with a coder, and the text that it reads.
struct Reading {
  const FeaturesArguments& a;
  const Globals& globals;
  const AnalyzedModel& loaded;
  const SparseCoder& coder;
  const FeatureSites& sites;

  AnalyzedText read(const std::string& text) const {
    std::optional<std::string> target;
    if (a.target) target = valid_text(*a.target, "--target", globals.quiet);
    return analyzed_text(loaded, valid_text(text, "features", globals.quiet), target);
  }
  // The tokens of the stack that the coder reads.
  std::vector<std::string> tokens(const AnalyzedText& text) const {
    return tokens_of(
        sites.reads.starts_with("encoder") && !text.source_ids.empty() ? text.source_ids : text.ids,
        *loaded.tokenizer);
  }
  std::vector<std::string> shown(const std::vector<std::string>& tokens) const {
    return inspect::shown_tokens(tokens, loaded.tokenizer.get());
  }
  std::string shown_id(std::int64_t id) const { return shown({loaded.tokenizer->token(id)}).front(); }
  // How many of the logits are of tokens that the tokenizer names.
  std::size_t named_tokens(std::size_t logits) const {
    return std::min(logits, static_cast<std::size_t>(loaded.tokenizer->vocab_size()));
  }
  // Whether logits are read from the sum that it writes to.
  bool writes_to_stream() const {
    const std::optional<ReadOut> read_out = loaded.model->read_out();
    return read_out && !read_out->transform.dense && sites.writes.starts_with("decoder.layers.") &&
           !sites.writes.ends_with(".heads") && !sites.writes.ends_with(".inner") &&
           coder.outputs() == read_out->output.weight.size(1);
  }
  std::string place() const {
    return sites.reads == sites.writes ? sites.reads : sites.reads + " → " + sites.writes;
  }
};

// Of each token the strongest features.
void show_tokens(const Reading& r) {
  const AnalyzedText text = r.read(r.a.text);
  const std::vector<std::string> tokens = r.tokens(text), shown = r.shown(tokens);
  const FeatureActivations found = feature_activations(*r.loaded.model, text.inputs, r.coder, r.sites);
  const std::vector<float> values = found.values.to_vector<float>();
  warn_of_non_finite(*r.loaded.model, std::isfinite(found.explained), r.globals);
  const auto width = static_cast<std::size_t>(r.coder.features());
  HeatTable table{.title = "Features of each token at " + r.place(),
                  .rows_title = "token",
                  .legend = fmt::format(
                      "{:.1f} of {} features are active at a token; together they explain {:.1f} % of the "
                      "variance",
                      found.active_features, width, 100 * found.explained),
                  .shade_legend = "activation",
                  .subtitle = subtitle_of(r.a.model, r.a.text),
                  .rows = shown,
                  .columns = {},
                  .cells = {}};
  const float most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  table.full_shade = fmt::format("{:.2g}", most);
  JsonWriter json;
  json.begin_object()
      .field("reads", r.sites.reads)
      .field("writes", r.sites.writes)
      .field("explained", found.explained);
  json.field("active_features", found.active_features).key("tokens").begin_array();
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(t * width);
    const std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(width));
    json.begin_object().field("token", tokens[t]).key("features").begin_array();
    table.cells.emplace_back();
    for (const std::size_t feature : largest_first(row, static_cast<std::size_t>(r.a.top_k))) {
      if (!(row[feature] > 0)) break;
      table.cells.back().push_back({fmt::format("{} {:.2f}", feature, row[feature]),
                                    row[feature] / static_cast<double>(most),
                                    fmt::format("{}: feature {}, {:.4f}", shown[t], feature, row[feature])});
      json.begin_object()
          .field("feature", static_cast<std::int64_t>(feature))
          .field("activation", row[feature])
          .end_object();
    }
    json.end_array().end_object();
  }
  std::size_t columns = 1;
  for (const auto& row : table.cells) columns = std::max(columns, row.size());
  for (std::size_t i = 0; i < columns; ++i)
    table.columns.push_back(i == 0 ? "strongest" : std::to_string(i + 1) + ".");
  for (auto& row : table.cells) row.resize(columns);
  show_table(table, json.end_array().end_object().text(), r.a.output, r.globals);
}

// Where a feature is strongest in the texts, and which tokens it speaks for.
void show_feature(const Reading& r) {
  const std::int64_t feature = *r.a.feature;
  if (feature >= r.coder.features())
    throw UsageError(
        fmt::format("--feature: expected a feature below {}, got {}", r.coder.features(), feature));
  const std::vector<std::string> texts =
      r.a.texts.empty() ? std::vector{r.a.text} : read_lines(r.a.texts.string(), r.globals.quiet);
  struct Found {
    double activation;
    std::size_t text, position;
    std::string token, before, after;
  };
  std::vector<Found> found;
  Progress progress(r.globals.quiet || texts.size() < 2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    stop_if_asked();
    if (texts[i].empty()) continue;
    const AnalyzedText text = r.read(texts[i]);
    const std::vector<std::string> shown = r.shown(r.tokens(text));
    const FeatureActivations all = feature_activations(*r.loaded.model, text.inputs, r.coder, r.sites);
    const std::vector<float> values = all.values.to_vector<float>();
    for (std::size_t t = 0; t < shown.size(); ++t) {
      const float value =
          values[t * static_cast<std::size_t>(r.coder.features()) + static_cast<std::size_t>(feature)];
      if (!(value > 0)) continue;
      Found one{value, i, t, shown[t], "", ""};
      for (std::size_t j = t > kContext ? t - kContext : 0; j < t; ++j) one.before += shown[j];
      for (std::size_t j = t + 1; j < std::min(shown.size(), t + 1 + kContext); ++j) one.after += shown[j];
      found.push_back(std::move(one));
    }
    progress.show(static_cast<std::int64_t>(i + 1), std::ssize(texts), "texts");
  }
  progress.finish();
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.activation > b.activation; });
  const std::size_t active = found.size();
  found.resize(std::min(found.size(), static_cast<std::size_t>(r.a.top_k)));
  HeatTable table{.title = fmt::format("Feature {} at {}", feature, r.place()),
                  .rows_title = "activation",
                  .legend = fmt::format("active at {} token{} of {} text{}", active, active == 1 ? "" : "s",
                                        texts.size(), texts.size() == 1 ? "" : "s"),
                  .subtitle = subtitle_of(r.a.model, r.a.texts.empty() ? r.a.text : r.a.texts.string()),
                  .rows = {},
                  .columns = {"token", "in"},
                  .cells = {}};
  JsonWriter json;
  json.begin_object().field("feature", feature).field("active_tokens", static_cast<std::int64_t>(active));
  json.key("strongest").begin_array();
  for (const Found& one : found) {
    table.rows.push_back(fmt::format("{:.3f}", one.activation));
    table.cells.push_back({{plot::visible(one.token),
                            found.front().activation > 0 ? one.activation / found.front().activation : 0},
                           {one.before + "[" + one.token + "]" + one.after, 0}});
    json.begin_object()
        .field("activation", one.activation)
        .field("text", static_cast<std::int64_t>(one.text));
    json.field("position", static_cast<std::int64_t>(one.position)).field("token", one.token).end_object();
  }
  json.end_array();
  const bool speaks = r.writes_to_stream();
  std::vector<HeatTable> tables;
  if (!found.empty()) tables.push_back(table);
  if (speaks) {
    std::vector<double> logits = feature_logits(*r.loaded.model, r.coder, feature);
    logits.resize(r.named_tokens(logits.size()));
    const auto list = [&](const char* key, double sign) {
      std::vector<double> ranked = logits;
      for (double& x : ranked) x *= sign;
      const std::vector<std::size_t> best = largest_first(ranked, static_cast<std::size_t>(r.a.top_k));
      json.key(key).begin_array();
      for (const std::size_t id : best)
        json.begin_object()
            .field("id", static_cast<std::int64_t>(id))
            .field("token", r.loaded.tokenizer->token(static_cast<std::int64_t>(id)))
            .field("logit", logits[id])
            .end_object();
      json.end_array();
      return best;
    };
    const std::vector<std::size_t> up = list("promoted", 1), down = list("suppressed", -1);
    double most = 0;
    for (const double x : logits) most = std::max(most, std::abs(x));
    HeatTable& tokens = tables.emplace_back(
        HeatTable{.title = "Tokens that its direction speaks for, and against",
                  .rows_title = "",
                  .legend = "logits of the direction, by the gain of the final norm alone",
                  .rows = {},
                  .columns = {"for", "logit", "against", "logit"},
                  .cells = {}});
    for (std::size_t i = 0; i < up.size(); ++i) {
      const auto cell = [&](std::size_t id) {
        return HeatCell{fmt::format("{:+.3f}", logits[id]), most > 0 ? logits[id] / most : 0};
      };
      tokens.rows.emplace_back("");
      tokens.cells.push_back({{plot::visible(r.shown_id(static_cast<std::int64_t>(up[i]))), 0},
                              cell(up[i]),
                              {plot::visible(r.shown_id(static_cast<std::int64_t>(down[i]))), 0},
                              cell(down[i])});
    }
  }
  if (tables.empty()) {
    table.rows.emplace_back("-");
    table.cells.push_back({{"none", 0}, {"", 0}});
    tables.push_back(table);
  }
  show_tables(tables, tables.front(), json.end_object().text(), r.a.output, r.globals);
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

// What the model predicts with features ablated or scaled.
void show_scaled(const Reading& r, const std::map<std::int64_t, double>& factors) {
  const NoGradients guard;
  if (!r.loaded.model->read_out())
    throw Error("features: expected a model that predicts tokens for --scale, got " +
                r.loaded.model->family());
  const AnalyzedText text = r.read(r.a.text);
  const Tensor before = r.loaded.model->forward(text.inputs).at("logits").contiguous();
  Taps taps;
  scale_features(taps, r.coder, r.sites, factors);
  Context context{.taps = &taps};
  const Tensor after = r.loaded.model->forward(text.inputs, {}, context).at("logits").contiguous();
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
  std::string what;
  for (const auto& [feature, factor] : factors)
    what += fmt::format("{}{} × {:g}", what.empty() ? "" : ", ", feature, factor);
  HeatTable table{
      .title = fmt::format("Predicted after the text, with feature {}", what),
      .rows_title = "",
      .legend = fmt::format("KL divergence {:.4f} nats on average over the positions", divergence),
      .shade_legend = "probability",
      .subtitle = subtitle_of(r.a.model, r.a.text),
      .rows = {},
      .columns = {"before", "", "after", ""},
      .cells = {}};
  JsonWriter json;
  json.begin_object().field("divergence", divergence);
  for (auto* all : {&p, &q}) all->resize(r.named_tokens(all->size()));
  const auto best = [&](const char* key, const std::vector<double>& from) {
    const std::vector<std::size_t> order = largest_first(from, static_cast<std::size_t>(r.a.top_k));
    json.key(key).begin_array();
    for (const std::size_t id : order)
      json.begin_object()
          .field("id", static_cast<std::int64_t>(id))
          .field("token", r.loaded.tokenizer->token(static_cast<std::int64_t>(id)))
          .field("probability", from[id])
          .end_object();
    json.end_array();
    return order;
  };
  const std::vector<std::size_t> first = best("before", p), second = best("after", q);
  for (std::size_t i = 0; i < first.size(); ++i) {
    table.rows.emplace_back("");
    table.cells.push_back({{plot::visible(r.shown_id(static_cast<std::int64_t>(first[i]))), 0},
                           {fmt::format("{:.3f}", p[first[i]]), p[first[i]]},
                           {plot::visible(r.shown_id(static_cast<std::int64_t>(second[i]))), 0},
                           {fmt::format("{:.3f}", q[second[i]]), q[second[i]]}});
  }
  warn_of_non_finite(*r.loaded.model, std::isfinite(divergence), r.globals);
  show_table(table, json.end_object().text(), r.a.output, r.globals);
}

void run(const FeaturesArguments& a, const Globals& globals) {
  check_table_output(a.output, {".svg", ".pdf", ".png"});
  const std::map<std::int64_t, double> factors = factors_of(a.scale);
  if (a.feature && !factors.empty()) throw UsageError("--feature: expected without --scale");
  if (!a.texts.empty() && !a.feature) throw UsageError("--texts: missing --feature");
  if (a.text.empty() == a.texts.empty())
    throw UsageError("features: expected a text, or --feature with --texts");
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files())
    throw Error(fmt::format("features: expected a model of texts, got one of {}s", loaded.reads()));
  const SparseCoder coder = SparseCoder::load(a.coder);
  FeatureSites sites;
  if (a.reads) {
    sites = {*a.reads, a.writes.value_or(*a.reads)};
    if (coder.is_transcoder() && !a.writes)
      throw UsageError("--writes: missing, which a transcoder needs with --reads");
  } else {
    sites = feature_sites(*loaded.model, coder);
    if (a.writes) sites.writes = *a.writes;
  }
  const Reading reading{a, globals, loaded, coder, sites};
  if (a.feature) return show_feature(reading);
  if (!factors.empty()) return show_scaled(reading, factors);
  show_tokens(reading);
}

}  // namespace

void add_features(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "features", "Show the features of a sparse autoencoder or transcoder, and remove them");
  auto a = std::make_shared<FeaturesArguments>();
  command->add_option("text", a->text, "The text");
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  command->add_option("--texts", a->texts, "With --feature: texts to look for it in, one a line")
      ->type_name("FILE")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command
      ->add_option("--sae", a->coder,
                   "The autoencoder or transcoder: a directory of SAELens or sparsify, with cfg.json")
      ->required()
      ->type_name("DIR")
      ->group("Model");
  command->add_option("--reads", a->reads, "The tap that it reads (default: the place that its file names)")
      ->type_name("TAP")
      ->group("Model");
  command
      ->add_option("--writes", a->writes,
                   "The tap that it writes (default: the same; of a transcoder, that of its file)")
      ->type_name("TAP")
      ->group("Model");
  command
      ->add_option("--feature", a->feature,
                   "Instead: where this feature is strongest, and which tokens it speaks for")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Output");
  command
      ->add_option("--scale", a->scale,
                   "Instead: what the model predicts with feature N times F (0 removes it; repeatable)")
      ->type_name("N=F")
      ->group("Output");
  command->add_option("--top-k", a->top_k, "Features of each token, tokens of a feature, predictions")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  add_table_output(*command, a->output, "Write a figure (.svg, .pdf, .png)");
  command->footer(
      "Examples:\n"
      "  heed features \"The cat sat on the mat.\" --model gpt2 --sae gpt2-sae/blocks.8.hook_resid_pre\n"
      "  heed features --feature 1234 --texts reviews.txt --model gpt2 --sae "
      "gpt2-sae/blocks.8.hook_resid_pre\n"
      "  heed features \"The cat sat on the\" --scale 1234=0 --model gpt2 --sae "
      "gpt2-sae/blocks.8.hook_resid_pre");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
