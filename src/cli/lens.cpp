// heed lens: what each layer of a model would predict, of a text the next token, of a file its label; and
// what each part adds to the logit of a token.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/analysis_input.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/option_values.h"
#include "cli/task_arguments.h"
#include "files/input_file.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

struct LensArguments {
  std::string text;
  std::optional<std::string> target, token;
  std::optional<std::int64_t> position;
  ModelChoice model;
  std::int64_t top_k = 1;
  std::filesystem::path output;
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
                     const Tokenizer& tokenizer) {
  HeatTable table{.title = "Logit lens: what each layer would predict next",
                  .rows_title = "token",
                  .legend = "columns: the input of the first layer, and the output of each",
                  .shade_legend = "shade: probability of the most probable token",
                  .rows = tokens,
                  .columns = {},
                  .cells = std::vector<std::vector<HeatCell>>(tokens.size())};
  for (const LensLayer& layer : layers) {
    table.columns.push_back(layer.name);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto& best = layer.positions[t];
      table.cells[t].push_back({shown_token(tokenizer, best.front().id), best.front().probability,
                                tokens[t] + ", " + layer.name + ": " + lens_tooltip(tokenizer, best)});
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

HeatTable attribution_table(const LogitAttribution& attribution, const std::string& title) {
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
  table.cells.assign(table.rows.size(), std::vector<HeatCell>(table.columns.size()));
  for (const LogitPart& part : attribution.parts) {
    if (part.layer < 0) continue;
    table.cells[rows.at(part.layer)][columns.at(column_of(part))] = {
        fmt::format("{:+.2f}", part.logit), largest > 0 ? part.logit / largest : 0,
        fmt::format("layer {}, {}: {:+.4f}", part.layer, column_of(part), part.logit)};
  }
  return table;
}

std::string attribution_json(const LogitAttribution& attribution, const std::string& token, std::int64_t id,
                             std::int64_t position) {
  JsonWriter json;
  json.begin_object().field("token", token).field("id", id).field("position", position);
  json.field("logit", attribution.logit).key("parts").begin_array();
  const auto number = [](std::int64_t n) { return n < 0 ? std::optional<std::int64_t>() : n; };
  for (const LogitPart& part : attribution.parts)
    json.begin_object()
        .field("name", part.name)
        .field("layer", number(part.layer))
        .field("head", number(part.head))
        .field("logit", part.logit)
        .end_object();
  return json.end_array().end_object().text();
}

// What the head reads after each layer: a row for each, the most probable labels from left to right.
HeatTable label_table(const std::vector<LensLayer>& layers, const std::vector<std::string>& labels) {
  HeatTable table{.title = "Lens: the labels that the head reads after each layer",
                  .rows_title = "layer",
                  .legend = "rows: the input of the first layer, and the output of each",
                  .shade_legend = "shade: probability of the label",
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
                     fmt::format("{}: {} {:.5f}", layer.name, label_name(labels, one.id), one.probability)});
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
  refuse_text_option(loaded, "--token", a.token.has_value());
  const std::vector<std::string>& labels = labels_of(loaded, "lens");
  const std::string file = file_arguments({a.text}).front();
  const std::vector<LensLayer> layers =
      label_lens(*loaded.model, analyzed_file(loaded, file).inputs, a.top_k);
  warn_of_non_finite(*loaded.model, lens_is_finite(layers), globals);
  HeatTable table = label_table(layers, labels);
  table.subtitle = subtitle_of(a.model, shown_name(file));
  show_table(table, label_json(layers, labels), a.output, globals);
}

void run(const LensArguments& a, const Globals& globals) {
  check_svg_file(a.output);
  if (a.position && !a.token) throw UsageError("--position: missing --token");
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files()) return run_on_file(a, loaded, globals);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  std::optional<std::string> target;
  if (a.target) target = valid_text(*a.target, "--target", globals.quiet);
  const AnalyzedText text = analyzed_text(loaded, valid_text(a.text, "lens", globals.quiet), target);
  const std::vector<std::string> tokens = tokens_of(text.ids, tokenizer),
                                 shown = inspect::shown_tokens(tokens, &tokenizer);
  const std::string subtitle = subtitle_of(a.model, a.target ? a.text + " → " + *a.target : a.text);
  if (!a.token) {
    const std::vector<LensLayer> layers = logit_lens(*loaded.model, text.inputs, a.top_k);
    warn_of_non_finite(*loaded.model, lens_is_finite(layers), globals);
    HeatTable table = lens_table(layers, shown, tokenizer);
    table.subtitle = subtitle;
    show_table(table, lens_json(layers, tokens, tokenizer), a.output, globals);
    return;
  }
  const std::int64_t id = single_token(tokenizer, *a.token, "--token");
  const std::int64_t position = a.position.value_or(std::ssize(tokens) - 1);
  if (position >= std::ssize(tokens))
    throw UsageError(
        fmt::format("--position: expected a position below {}, got {}", tokens.size(), position));
  const LogitAttribution attribution = attribute_logit(*loaded.model, text.inputs, position, id);
  warn_of_non_finite(*loaded.model, std::isfinite(attribution.logit), globals);
  const std::string title = fmt::format("Logit of {} after {} (position {})", shown_token(tokenizer, id),
                                        shown[static_cast<std::size_t>(position)], position);
  HeatTable table = attribution_table(attribution, title);
  table.subtitle = subtitle;
  show_table(table, attribution_json(attribution, tokenizer.token(id), id, position), a.output, globals);
}

}  // namespace

void add_lens(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "lens", "Show what each layer would predict, or what each head adds to a token's logit");
  auto a = std::make_shared<LensArguments>();
  command
      ->add_option("text", a->text, "The text; for a classifier of images or sounds, a file, or - for stdin")
      ->required();
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
  command
      ->add_option("--token", a->token,
                   "Instead: what each head and feed-forward adds to the logit of this token")
      ->type_name("TOKEN")
      ->group("Output");
  command->add_option("--position", a->position, "The position that predicts --token (default: the last)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Output");
  command->add_option("--output,-o", a->output, "Write a figure")->type_name("FILE.svg")->group("Output");
  command->footer(
      "Examples:\n"
      "  heed lens \"The cat sat on the\" --model gpt2\n"
      "  heed lens \"The cat sat on the\" --model gpt2 --token \" mat\" --output mat.svg\n"
      "  heed lens photo.jpg --model ./vit --top-k 3\n"
      "  heed lens \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --top-k 5 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
