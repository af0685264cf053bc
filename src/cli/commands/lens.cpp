// heed lens: what each layer of a model would predict, of a text the next token, of a file its label; and
// what each part adds to the logit of a token.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/input/prompts.h"
#include "cli/options/metric_options.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "files/input_file.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

struct LensArguments {
  std::optional<std::string> text, target, other;
  std::filesystem::path prompts;
  ChosenToken chosen;
  std::optional<std::int64_t> position;
  ModelChoice model;
  std::int64_t top_k = 1;
  TableOutput output;
};

// A token as readers see it: with one mark for a space, whatever the tokenizer's is.
std::string shown_token(const Tokenizer& tokenizer, std::int64_t id) {
  return inspect::shown_tokens({tokenizer.token(id)}, &tokenizer).front();
}

std::string lens_tooltip(const Tokenizer& tokenizer, const std::vector<TokenProbability>& best) {
  std::string text;
  for (const TokenProbability& one : best)
    text +=
        fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", shown_token(tokenizer, one.id), one.probability);
  return text;
}

HeatTable lens_table(const std::vector<LensLayer>& layers, const std::vector<std::string>& tokens,
                     const Tokenizer& tokenizer, bool masked) {
  HeatTable table{.title = std::string("Logit lens: what each layer would predict ") +
                           (masked ? "in each place" : "next"),
                  .rows_title = "token",
                  .legend = "columns: the input of the first layer, and the output of each",
                  .shade_legend = "probability of the most probable token",
                  .rows = tokens,
                  .columns = {},
                  .cells = std::vector<std::vector<HeatCell>>(tokens.size())};
  for (const LensLayer& layer : layers) {
    table.columns.push_back(layer.name);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto& best = layer.positions[t];
      table.cells[t].push_back({shown_token(tokenizer, best.front().id), best.front().probability,
                                tokens[t] + ", " + layer.name + ": " + lens_tooltip(tokenizer, best),
                                best.front().probability});
    }
  }
  return table;
}

std::string lens_json(const std::vector<LensLayer>& layers, const std::vector<std::string>& tokens,
                      const Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object().field("tokens", tokens).key("layers").begin_array();
  for (const LensLayer& layer : layers) {
    json.begin_object().field("name", layer.name).key("positions").begin_array();
    for (const auto& best : layer.positions) {
      json.begin_array();
      for (const TokenProbability& one : best)
        json.begin_object()
            .field("id", one.id)
            .field("token", tokenizer.token(one.id))
            .field("probability", one.probability)
            .end_object();
      json.end_array();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text();
}

// The column of a part in the table of its layer.
std::string column_of(const LogitPart& part) {
  const std::string kind = part.name == "cross_attn" ? "cross " : part.name == "self_attn" ? "head " : "";
  if (part.head >= 0) return kind + std::to_string(part.head);
  if (part.name == "feed_forward") return "ff";
  if (part.name == "steering") return part.name;
  if (part.name == "feed_forward_norm") return "ff norm";
  if (part.name == "cross_attn_norm") return "cross norm";
  if (part.name == "self_attn_norm") return "norm";
  return (part.name == "cross_attn" ? "cross " : "") + std::string("bias");
}

// The mean over prompts, and of each part its standard error.
struct MeanAttribution {
  LogitAttribution mean;
  std::vector<double> errors = {};  // of each part; empty for one text
};

HeatTable attribution_table(const MeanAttribution& found, const std::string& title) {
  const LogitAttribution& attribution = found.mean;
  HeatTable table{
      .title = title, .rows_title = "layer", .legend = "", .rows = {}, .columns = {}, .cells = {}};
  std::map<std::string, std::size_t> columns;
  double largest = 0;
  std::map<std::int64_t, std::size_t> rows;
  for (const LogitPart& part : attribution.parts) {
    largest = std::max(largest, std::abs(part.logit));
    if (part.layer < 0) {
      table.legend += fmt::format("{}{} {:+.3f}", table.legend.empty() ? "" : ", ", part.name, part.logit);
      continue;
    }
    if (columns.emplace(column_of(part), table.columns.size()).second)
      table.columns.push_back(column_of(part));
    if (rows.emplace(part.layer, table.rows.size()).second) table.rows.push_back(std::to_string(part.layer));
  }
  table.legend = fmt::format("logit {:.3f} = the sum of the table, {}", attribution.logit, table.legend);
  table.shade_legend = "what a part adds to the logit";
  table.full_shade = fmt::format("{:.2g}", largest);
  table.cells.assign(table.rows.size(), std::vector<HeatCell>(table.columns.size()));
  for (std::size_t i = 0; i < attribution.parts.size(); ++i) {
    const LogitPart& part = attribution.parts[i];
    if (part.layer < 0) continue;
    HeatCell& cell = table.cells[rows.at(part.layer)][columns.at(column_of(part))];
    cell = {fmt::format("{:+.2f}", part.logit), largest > 0 ? part.logit / largest : 0,
            fmt::format("layer {}, {}: {:+.4f}", part.layer, column_of(part), part.logit), part.logit};
    if (found.errors.empty()) continue;
    cell.error = found.errors[i];
    cell.text += fmt::format(" ± {:.2f}", found.errors[i]);
  }
  return table;
}

// `json` has begun an object that says what the logit is of.
std::string attribution_json(JsonWriter json, const MeanAttribution& found) {
  json.field("logit", found.mean.logit).key("parts").begin_array();
  const auto number = [](std::int64_t n) { return n < 0 ? std::optional<std::int64_t>() : n; };
  for (std::size_t i = 0; i < found.mean.parts.size(); ++i) {
    const LogitPart& part = found.mean.parts[i];
    json.begin_object()
        .field("name", part.name)
        .field("layer", number(part.layer))
        .field("head", number(part.head))
        .field("logit", part.logit);
    if (!found.errors.empty()) json.field("error", found.errors[i]);
    json.end_object();
  }
  return json.end_array().end_object().text();
}

// The logit of a token, less that of another.
LogitAttribution attribution_of(const AnalyzedModel& loaded, const AnalyzedText& text,
                                const LogitMetric& metric) {
  const std::int64_t position = metric.position.value_or(std::ssize(text.ids) - 1);
  if (position >= std::ssize(text.ids))
    throw UsageError(
        fmt::format("--position: expected a position below {}, got {}", text.ids.size(), position));
  LogitAttribution whole = attribute_logit(*loaded.model, text.inputs, position, *metric.token);
  if (!metric.other) return whole;
  const LogitAttribution other = attribute_logit(*loaded.model, text.inputs, position, *metric.other);
  for (std::size_t i = 0; i < whole.parts.size(); ++i) whole.parts[i].logit -= other.parts[i].logit;
  whole.logit -= other.logit;
  return whole;
}

MeanAttribution mean_of(const std::vector<LogitAttribution>& all) {
  MeanAttribution mean{all.front()};
  std::vector<double> values(all.size());
  const auto estimate = [&](auto value) {
    for (std::size_t i = 0; i < all.size(); ++i) values[i] = value(all[i]);
    return estimate_of(values);
  };
  mean.mean.logit = estimate([](const LogitAttribution& one) { return one.logit; }).mean;
  for (std::size_t part = 0; part < all.front().parts.size(); ++part) {
    const Estimate one = estimate([&](const LogitAttribution& of) { return of.parts[part].logit; });
    mean.mean.parts[part].logit = one.mean;
    mean.errors.push_back(one.error);
  }
  return mean;
}

void run_on_prompts(const LensArguments& a, const AnalyzedModel& loaded, const Globals& globals) {
  const MetricArguments options{.metric = {}, .chosen = a.chosen, .other = a.other, .position = a.position};
  std::vector<LogitAttribution> all;
  bool differences = false;
  for (const Prompt& prompt : read_prompts(a.prompts)) {
    const LogitMetric metric = metric_of(prompt, options, loaded, MetricKind::logit);
    if (!metric.token) throw Error(prompt.where + ": A: expected a token, got none (or choose --token)");
    if (!all.empty() && differences != metric.other.has_value())
      throw Error(prompt.where + ": B: expected a token in every row or in none");
    differences = metric.other.has_value();
    all.push_back(attribution_of(
        loaded, analyzed_text(loaded, prompt.clean, prompt.target ? prompt.target : a.target), metric));
  }
  const MeanAttribution mean = mean_of(all);
  warn_of_non_finite(*loaded.model, std::isfinite(mean.mean.logit), globals);
  HeatTable table = attribution_table(mean, fmt::format("Logit of A{}, mean of {} prompts",
                                                        differences ? " less that of B" : "", all.size()));
  table.subtitle = subtitle_of(a.model, a.prompts.string());
  JsonWriter json;
  json.begin_object().field("prompts", all.size());
  show_table(table, attribution_json(std::move(json), mean), a.output, globals);
}

// What the head reads after each layer: a row for each, the most probable labels from left to right.
HeatTable label_table(const std::vector<LensLayer>& layers, const std::vector<std::string>& labels) {
  HeatTable table{.title = "Lens: the labels that the head reads after each layer",
                  .rows_title = "layer",
                  .legend = "rows: the input of the first layer, and the output of each",
                  .shade_legend = "probability of the label",
                  .rows = {},
                  .columns = {},
                  .cells = {}};
  for (std::size_t i = 0; i < layers.front().positions.front().size(); ++i)
    table.columns.push_back(i == 0 ? "label" : std::to_string(i + 1) + ".");
  for (const LensLayer& layer : layers) {
    table.rows.push_back(layer.name);
    std::vector<HeatCell>& row = table.cells.emplace_back();
    for (const TokenProbability& one : layer.positions.front())
      row.push_back({fmt::format("{} {:.3f}", label_name(labels, one.id), one.probability), one.probability,
                     fmt::format("{}: {} {:.5f}", layer.name, label_name(labels, one.id), one.probability),
                     one.probability});
  }
  return table;
}

std::string label_json(const std::vector<LensLayer>& layers, const std::vector<std::string>& labels) {
  JsonWriter json;
  json.begin_object().key("layers").begin_array();
  for (const LensLayer& layer : layers) {
    json.begin_object().field("name", layer.name).key("labels").begin_array();
    for (const TokenProbability& one : layer.positions.front())
      json.begin_object()
          .field("id", one.id)
          .field("label", label_name(labels, one.id))
          .field("probability", one.probability)
          .end_object();
    json.end_array().end_object();
  }
  return json.end_array().end_object().text();
}

bool lens_is_finite(const std::vector<LensLayer>& layers) {
  for (const LensLayer& layer : layers) {
    for (const auto& best : layer.positions) {
      if (!std::isfinite(best.front().probability)) return false;
    }
  }
  return true;
}

void run_on_file(const LensArguments& a, const AnalyzedModel& loaded, const Globals& globals) {
  refuse_text_option(loaded, "--target", a.target.has_value());
  refuse_text_option(loaded, "--token", a.chosen.given());
  refuse_text_option(loaded, "--prompts", !a.prompts.empty());
  const std::vector<std::string>& labels = labels_of(loaded, "lens");
  const std::string file = file_arguments({*a.text}).front();
  const std::vector<LensLayer> layers =
      label_lens(*loaded.model, analyzed_file(loaded, file).inputs, a.top_k);
  warn_of_non_finite(*loaded.model, lens_is_finite(layers), globals);
  HeatTable table = label_table(layers, labels);
  table.subtitle = subtitle_of(a.model, shown_name(file));
  show_table(table, label_json(layers, labels), a.output, globals);
}

void check_arguments(const LensArguments& a) {
  check_table_output(a.output);
  if (a.text.has_value() != a.prompts.empty()) throw UsageError("lens: expected a text, or --prompts FILE");
  if (a.position && !a.chosen.given() && a.prompts.empty()) throw UsageError("--position: missing --token");
  if (a.other && !a.chosen.given() && a.prompts.empty()) throw UsageError("--other: missing --token");
}

void run(const LensArguments& a, const Globals& globals) {
  check_arguments(a);
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files()) return run_on_file(a, loaded, globals);
  if (!a.prompts.empty()) return run_on_prompts(a, loaded, globals);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  std::optional<std::string> target;
  if (a.target) target = valid_text(*a.target, "--target", globals.quiet);
  const AnalyzedText text = analyzed_text(loaded, valid_text(*a.text, "lens", globals.quiet), target);
  const std::vector<std::string> tokens = tokens_of(text.ids, tokenizer),
                                 shown = inspect::shown_tokens(tokens, &tokenizer);
  const std::string subtitle = subtitle_of(a.model, a.target ? *a.text + " → " + *a.target : *a.text);
  if (!a.chosen.given()) {
    const std::vector<LensLayer> layers = logit_lens(*loaded.model, text.inputs, a.top_k);
    warn_of_non_finite(*loaded.model, lens_is_finite(layers), globals);
    HeatTable table =
        lens_table(layers, shown, tokenizer, dynamic_cast<const EncoderModel*>(loaded.model) != nullptr);
    table.subtitle = subtitle;
    show_table(table, lens_json(layers, tokens, tokenizer), a.output, globals);
    return;
  }
  const LogitMetric metric{
      .kind = MetricKind::logit,
      .token = chosen_id(a.chosen, *loaded.model, &tokenizer),
      .other = a.other ? std::optional(other_id(*a.other, a.chosen, loaded)) : std::nullopt,
      .position = a.position};
  const MeanAttribution attribution{attribution_of(loaded, text, metric)};
  warn_of_non_finite(*loaded.model, std::isfinite(attribution.mean.logit), globals);
  const std::int64_t position = a.position.value_or(std::ssize(tokens) - 1);
  const std::string token = shown_token(tokenizer, *metric.token);
  HeatTable table = attribution_table(
      attribution, fmt::format("Logit of {}{} after {} (position {})", token,
                               metric.other ? " less that of " + shown_token(tokenizer, *metric.other) : "",
                               shown[static_cast<std::size_t>(position)], position));
  table.subtitle = subtitle;
  JsonWriter json;
  json.begin_object().field("token", tokenizer.token(*metric.token)).field("id", *metric.token);
  if (metric.other) json.field("other", tokenizer.token(*metric.other)).field("other_id", *metric.other);
  json.field("position", position);
  show_table(table, attribution_json(std::move(json), attribution), a.output, globals);
}

}  // namespace

void add_lens(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "lens", "Show what each layer would predict, or what each head adds to a token's logit");
  auto a = std::make_shared<LensArguments>();
  command->add_option("text", a->text,
                      "The text; for a classifier of images or sounds, a file, or - for stdin");
  command
      ->add_option("--prompts", a->prompts,
                   "Instead of a text: rows with clean, and A and B for --token and --other; the attribution "
                   "is a mean with standard errors")
      ->type_name("FILE.jsonl|.tsv|.csv")
      ->group("Input");
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command
      ->add_option("--top-k", a->top_k,
                   "Tokens of every layer and position, in JSON and tooltips; labels of every layer")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  add_token_options(*command, a->chosen,
                    "Instead: what each head and feed-forward adds to the logit of this token", "Output");
  command->add_option("--other", a->other, "Another token, whose logit is taken away from that of --token")
      ->type_name("TOKEN")
      ->group("Output");
  command->add_option("--position", a->position, "The position that predicts --token (default: the last)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Output");
  add_table_output(*command, a->output, kTableOutput);
  command->footer(
      "Examples:\n"
      "  heed lens \"The cat sat on the\" --model gpt2\n"
      "  heed lens \"The cat sat on the\" --model gpt2 --token \" mat\" --output mat.svg\n"
      "  heed lens \"The capital of France is\" --model gpt2 --token \" Paris\" --other \" Rome\"\n"
      "  heed lens \"The capital of France is [MASK].\" --model bert-base-uncased\n"
      "  heed lens --prompts prompts.tsv --model gpt2 --output heads.npz\n"
      "  heed lens photo.jpg --model ./vit --top-k 3\n"
      "  heed lens \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --top-k 5 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
