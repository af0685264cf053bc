// heed why: what of two residual streams makes a head attend from a query to a key.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/input/prompts.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "files/input_file.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"
#include "inspect/stream_sum.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::cli {
namespace {

constexpr std::size_t kFigureParts = 14;  // rows and columns of the figure, the rest is summed

struct WhyArguments {
  std::optional<std::string> text, target;
  std::filesystem::path prompts;
  std::string kind, head;
  std::optional<std::int64_t> query, key;
  ModelChoice model;
  std::int64_t top_k = 10;
  TableOutput output;
};

// Of means over prompts: standard errors.
struct Errors {
  double score = 0, weight = 0;
  std::vector<double> query, key;          // of the sums over the other side
  std::vector<std::vector<double>> pairs;  // [query_parts, key_parts]
};

// A score with the names of what it is of; of prompts, the means of their scores, without tokens.
struct Explained {
  ScoreAttribution score;
  std::size_t prompts = 0;  // 0: one text
  Errors errors = {};
  AttentionKind kind;
  LayerPart head;
  std::int64_t query = 0;
  std::vector<std::string> query_tokens, key_tokens;  // as the tokenizer has them

  std::size_t queries() const { return score.query_parts.size(); }
  std::size_t keys() const { return score.key_parts.size(); }
  std::string with_error(double value, double error) const {
    return prompts > 0 ? fmt::format("{:.3f} ± {:.3f}", value, error) : fmt::format("{:.3f}", value);
  }
};

// The sum over one side, for each part of the other.
struct Sides {
  std::vector<double> query, key;
  double magnitude = 0;  // sum of the pairs' absolute values, and of the position bias
};

Sides sides_of(const ScoreAttribution& score) {
  Sides sides{std::vector<double>(score.query_parts.size()), std::vector<double>(score.key_parts.size()),
              std::abs(score.position_bias)};
  for (std::size_t i = 0; i < sides.query.size(); ++i) {
    for (std::size_t j = 0; j < sides.key.size(); ++j) {
      sides.query[i] += score.pairs[i][j];
      sides.key[j] += score.pairs[i][j];
      sides.magnitude += std::abs(score.pairs[i][j]);
    }
  }
  return sides;
}

// The indices of the largest values, the largest first.
std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(std::min(count, order.size()));
  return order;
}

std::string signed_number(double x, int digits = 3) {
  const std::string text = fmt::format("{:+.{}f}", x, digits);
  return std::strtod(text.c_str(), nullptr) == 0 ? text.substr(1) : text;  // no sign for what rounds to 0
}

// A cell of a column of contributions, shaded by its part of the largest.
HeatCell contribution(double x, double largest, std::optional<double> error = {}) {
  return {signed_number(x) + (error ? fmt::format(" ± {:.3f}", *error) : ""), largest > 0 ? x / largest : 0};
}

std::string place_of(const std::vector<std::string>& shown, std::int64_t position) {
  return fmt::format("{} ({})", plot::visible(shown[static_cast<std::size_t>(position)]), position);
}

HeatTable pairs_table(const Explained& e, const Sides& sides, std::int64_t top_k, const std::string& title) {
  std::vector<double> all;
  for (const auto& row : e.score.pairs) all.insert(all.end(), row.begin(), row.end());
  const std::vector<std::size_t> order = largest(all, static_cast<std::size_t>(top_k));
  const double most = std::abs(all[order.front()]);
  const auto share = [&](double x) {
    return fmt::format("{:.1f} %", sides.magnitude > 0 ? 100 * std::abs(x) / sides.magnitude : 0);
  };
  HeatTable table{.title = title,
                  .rows_title = "query part",
                  .legend = fmt::format("score {} = the sum, weight {}; share: of the sum of absolute values",
                                        e.with_error(e.score.score, e.errors.score),
                                        e.with_error(e.score.weight, e.errors.weight)),
                  .rows = {},
                  .columns = {"key part", "adds", "share"},
                  .cells = {}};
  double rest = e.score.score - e.score.position_bias, rest_magnitude = sides.magnitude;
  for (const std::size_t i : order) {
    const StreamPart &query = e.score.query_parts[i / e.keys()], &key = e.score.key_parts[i % e.keys()];
    table.rows.push_back(inspect::part_label(query));
    const auto error =
        e.prompts > 0 ? std::optional(e.errors.pairs[i / e.keys()][i % e.keys()]) : std::nullopt;
    table.cells.push_back(
        {{inspect::part_label(key), 0}, contribution(all[i], most, error), {share(all[i]), 0}});
    rest -= all[i];
    rest_magnitude -= std::abs(all[i]);
  }
  if (order.size() < all.size()) {
    table.rows.emplace_back("others");
    table.cells.push_back({{fmt::format("{} pairs", all.size() - order.size()), 0},
                           contribution(rest, most),
                           {share(rest_magnitude - std::abs(e.score.position_bias)), 0}});
  }
  if (e.score.position_bias != 0) {
    table.rows.emplace_back("positions");
    table.cells.push_back(
        {{"", 0}, contribution(e.score.position_bias, most), {share(e.score.position_bias), 0}});
  }
  return table;
}

// The sums over the other side, of the strongest parts of each.
HeatTable sides_table(const Explained& e, const Sides& sides, std::int64_t top_k) {
  HeatTable table{.title = "Summed over the other side",
                  .rows_title = "",
                  .legend = "",
                  .rows = {},
                  .columns = {"query part", "adds", "key part", "adds"},
                  .cells = {}};
  const auto most = [](const std::vector<double>& values) {
    double magnitude = 0;
    for (const double x : values) magnitude = std::max(magnitude, std::abs(x));
    return magnitude;
  };
  const auto count = static_cast<std::size_t>(top_k);
  const std::vector<std::size_t> queries = largest(sides.query, count), keys = largest(sides.key, count);
  const auto add = [&](std::size_t line, const std::vector<StreamPart>& parts,
                       const std::vector<double>& sums, const std::vector<double>& errors,
                       const std::vector<std::size_t>& order) {
    std::vector<HeatCell>& row = table.cells[line];
    if (line < order.size()) {
      row.push_back({inspect::part_label(parts[order[line]]), 0});
      const auto error = errors.empty() ? std::nullopt : std::optional(errors[order[line]]);
      row.push_back(contribution(sums[order[line]], most(sums), error));
    } else if (line == order.size() && order.size() < sums.size()) {
      double rest = std::accumulate(sums.begin(), sums.end(), 0.0);
      for (const std::size_t i : order) rest -= sums[i];
      row.push_back({fmt::format("{} others", sums.size() - order.size()), 0});
      row.push_back(contribution(rest, most(sums)));
    } else {
      row.insert(row.end(), 2, HeatCell{"", 0});
    }
  };
  const auto lines = [&](const std::vector<std::size_t>& order, const std::vector<double>& sums) {
    return order.size() + (order.size() < sums.size() ? 1 : 0);
  };
  for (std::size_t line = 0; line < std::max(lines(queries, sides.query), lines(keys, sides.key)); ++line) {
    table.rows.emplace_back("");
    table.cells.emplace_back();
    add(line, e.score.query_parts, sides.query, e.errors.query, queries);
    add(line, e.score.key_parts, sides.key, e.errors.key, keys);
  }
  return table;
}

// Rows or columns of the figure: groups of parts, the strongest alone in the order of the layers, the others
// together.
struct FigureParts {
  std::vector<std::string> labels;
  std::vector<std::vector<std::size_t>> groups;
};

FigureParts figure_parts(const std::vector<StreamPart>& parts, const std::vector<double>& magnitudes) {
  std::vector<std::size_t> chosen = largest(magnitudes, kFigureParts);
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

HeatTable figure_of(const Explained& e, const std::string& title) {
  std::vector<double> query_mass(e.queries()), key_mass(e.keys());
  for (std::size_t i = 0; i < e.queries(); ++i) {
    for (std::size_t j = 0; j < e.keys(); ++j) {
      query_mass[i] += std::abs(e.score.pairs[i][j]);
      key_mass[j] += std::abs(e.score.pairs[i][j]);
    }
  }
  const FigureParts rows = figure_parts(e.score.query_parts, query_mass),
                    columns = figure_parts(e.score.key_parts, key_mass);
  HeatTable table{.title = title,
                  .rows_title = "query part",
                  .legend = fmt::format("score {}, weight {}; rows: parts of the query, columns: of the key",
                                        e.with_error(e.score.score, e.errors.score),
                                        e.with_error(e.score.weight, e.errors.weight)),
                  .shade_legend = "what a pair adds",
                  .rows = rows.labels,
                  .columns = columns.labels,
                  .cells = {}};
  if (e.score.position_bias != 0)
    table.legend += fmt::format("; positions add {}", signed_number(e.score.position_bias));
  double most = 0;  // of the pairs that have a cell, which alone are shaded
  std::vector<std::vector<double>> sums;
  for (const auto& row : rows.groups) {
    sums.emplace_back();
    for (const auto& column : columns.groups) {
      double sum = 0;
      for (const std::size_t i : row) {
        for (const std::size_t j : column) sum += e.score.pairs[i][j];
      }
      sums.back().push_back(sum);
      if (row.size() == 1 && column.size() == 1) most = std::max(most, std::abs(sum));
    }
  }
  table.full_shade = fmt::format("{:.2g}", most);
  const auto cell = [&](double x, const std::string& row, const std::string& column, bool pair = false) {
    return HeatCell{signed_number(x, 2), pair && most > 0 ? x / most : 0,
                    fmt::format("{} × {}: {}", row, column, signed_number(x, 4)), x};
  };
  table.columns.emplace_back("sum");
  table.rows.emplace_back("sum");
  std::vector<double> down(columns.groups.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::vector<HeatCell>& row = table.cells.emplace_back();
    double across = 0;
    for (std::size_t j = 0; j < sums[i].size(); ++j) {
      const bool pair = rows.groups[i].size() == 1 && columns.groups[j].size() == 1;
      row.push_back(cell(sums[i][j], rows.labels[i], columns.labels[j], pair));
      if (pair && e.prompts > 0)
        row.back().error = e.errors.pairs[rows.groups[i].front()][columns.groups[j].front()];
      across += sums[i][j];
      down[j] += sums[i][j];
    }
    row.push_back(cell(across, rows.labels[i], "all"));
  }
  std::vector<HeatCell>& last = table.cells.emplace_back();
  for (std::size_t j = 0; j < down.size(); ++j) last.push_back(cell(down[j], "all", columns.labels[j]));
  last.push_back(cell(std::accumulate(down.begin(), down.end(), 0.0), "all", "all"));
  return table;
}

std::string why_json(const Explained& e, const Sides& sides) {
  JsonWriter json;
  json.begin_object().field("kind", e.kind.name).field("layer", e.head.layer).field("head", e.head.head);
  const auto position = [&](const char* side, std::int64_t at, const std::vector<std::string>& tokens) {
    json.key(side).begin_object().field("position", at);
    json.field("token", tokens[static_cast<std::size_t>(at)]).end_object();
  };
  if (e.prompts > 0) {
    json.field("prompts", e.prompts);
  } else {
    position("query", e.query, e.query_tokens);
    position("key", e.score.key, e.key_tokens);
  }
  json.field("score", e.score.score).field("weight", e.score.weight);
  if (e.prompts > 0) json.field("score_error", e.errors.score).field("weight_error", e.errors.weight);
  json.field("position_bias", e.score.position_bias);
  const auto number = [](std::int64_t n) { return n < 0 ? std::optional<std::int64_t>() : n; };
  const auto parts = [&](const char* side, const std::vector<StreamPart>& of, const std::vector<double>& sums,
                         const std::vector<double>& errors) {
    json.key(side).begin_array();
    for (std::size_t i = 0; i < of.size(); ++i) {
      json.begin_object()
          .field("name", of[i].name)
          .field("layer", number(of[i].layer))
          .field("head", number(of[i].head))
          .field("sum", sums[i]);
      if (!errors.empty()) json.field("sum_error", errors[i]);
      json.end_object();
    }
    json.end_array();
  };
  parts("query_parts", e.score.query_parts, sides.query, e.errors.query);
  parts("key_parts", e.score.key_parts, sides.key, e.errors.key);
  json.field("pairs", e.score.pairs);
  if (e.prompts > 0) json.field("pair_errors", e.errors.pairs);
  return json.end_object().text();
}

// What is read: its inputs, and the tokens or parts that heads of a kind attend from and to.
struct WhyInput {
  TensorMap inputs;
  std::vector<std::string> queries, keys;
  std::string subtitle;
};

WhyInput why_input(const WhyArguments& a, const AnalyzedModel& loaded, const AttentionKind& kind,
                   const Globals& globals) {
  if (loaded.reads_files()) {
    refuse_text_option(loaded, "--target", a.target.has_value());
    const std::string file = file_arguments({*a.text}).front();
    const AnalyzedFile read = analyzed_file(loaded, file);
    return {read.inputs, read.parts, read.parts, subtitle_of(a.model, shown_name(file))};
  }
  std::optional<std::string> target;
  if (a.target) target = valid_text(*a.target, "--target", globals.quiet);
  const AnalyzedText text = analyzed_text(loaded, valid_text(*a.text, "why", globals.quiet), target);
  const bool encoder = kind.stack == std::string("encoder");
  return {text.inputs, tokens_of(encoder ? text.source_ids : text.ids, *loaded.tokenizer),
          tokens_of(encoder || !kind.is_self() ? text.source_ids : text.ids, *loaded.tokenizer),
          subtitle_of(a.model, a.target ? *a.text + " → " + *a.target : *a.text)};
}

void check_place(const char* option, std::int64_t position, const std::vector<std::string>& tokens) {
  if (position >= std::ssize(tokens))
    throw UsageError(
        fmt::format("{}: expected a position below {}, got {}", option, tokens.size(), position));
}

ScoreAttribution score_of(const WhyArguments& a, const AnalyzedModel& loaded, const AttentionKind& kind,
                          const WhyInput& input) {
  const LayerPart head = parse_head(a.head, "--head");
  const std::int64_t query = a.query.value_or(std::ssize(input.queries) - 1);
  check_place("--query", query, input.queries);
  if (a.key) check_place("--key", *a.key, input.keys);
  return attribute_score(*loaded.model, input.inputs,
                         {.stack = kind.stack,
                          .part = kind.part,
                          .layer = head.layer,
                          .head = head.head,
                          .query = query,
                          .key = a.key});
}

// The means of several scores, whose parts are the same.
Explained mean_of(const std::vector<ScoreAttribution>& scores, const AttentionKind& kind, LayerPart head) {
  Explained mean{.score = scores.front(),
                 .prompts = scores.size(),
                 .kind = kind,
                 .head = head,
                 .query_tokens = {},
                 .key_tokens = {}};
  const auto estimate = [&](const auto& number) {
    std::vector<double> values;
    for (const ScoreAttribution& score : scores) values.push_back(number(score));
    return estimate_of(values);
  };
  const auto set = [](double& value, double& error, const Estimate& by) {
    value = by.mean;
    error = by.error;
  };
  set(mean.score.score, mean.errors.score, estimate([](const auto& one) { return one.score; }));
  set(mean.score.weight, mean.errors.weight, estimate([](const auto& one) { return one.weight; }));
  mean.score.position_bias = estimate([](const auto& one) { return one.position_bias; }).mean;
  mean.errors.pairs.assign(mean.queries(), std::vector<double>(mean.keys()));
  std::vector<Sides> sides;
  for (const ScoreAttribution& score : scores) sides.push_back(sides_of(score));
  for (std::size_t i = 0; i < mean.queries(); ++i) {
    for (std::size_t j = 0; j < mean.keys(); ++j)
      set(mean.score.pairs[i][j], mean.errors.pairs[i][j],
          estimate([&](const auto& one) { return one.pairs[i][j]; }));
  }
  const auto side_errors = [&](std::vector<double> Sides::*side, std::size_t count) {
    std::vector<double> errors;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double> values;
      for (const Sides& one : sides) values.push_back((one.*side)[i]);
      errors.push_back(estimate_of(values).error);
    }
    return errors;
  };
  mean.errors.query = side_errors(&Sides::query, mean.queries());
  mean.errors.key = side_errors(&Sides::key, mean.keys());
  return mean;
}

void show_why(const Explained& e, const WhyArguments& a, const std::string& title,
              const std::string& subtitle, const Globals& globals) {
  const Sides sides = sides_of(e.score);
  HeatTable figure = figure_of(e, title);
  figure.subtitle = subtitle;
  show_tables({pairs_table(e, sides, a.top_k, title), sides_table(e, sides, a.top_k)}, figure,
              why_json(e, sides), a.output, globals);
}

const char* kind_words(const AttentionKind& kind) { return kind.is_self() ? "" : "cross-attention's "; }

void run_on_prompts(const WhyArguments& a, const AnalyzedModel& loaded, const AttentionKind& kind,
                    const Globals& globals) {
  refuse_text_option(loaded, "--prompts", true);
  std::vector<ScoreAttribution> scores;
  for (const Prompt& prompt : read_prompts(a.prompts)) {
    WhyArguments own = a;
    own.text = prompt.clean;
    if (prompt.target) own.target = prompt.target;
    try {
      scores.push_back(score_of(own, loaded, kind, why_input(own, loaded, kind, globals)));
    } catch (const Error& e) {
      throw Error(prompt.where + ": " + e.what());
    }
  }
  const LayerPart head = parse_head(a.head, "--head");
  const Explained mean = mean_of(scores, kind, head);
  warn_of_non_finite(*loaded.model, std::isfinite(mean.score.score), globals);
  show_why(mean, a,
           fmt::format("Why {}head {}.{} attends, mean of {} prompts", kind_words(kind), head.layer,
                       head.head, scores.size()),
           subtitle_of(a.model, a.prompts.string()), globals);
}

void run(const WhyArguments& a, const Globals& globals) {
  check_table_output(a.output);
  if (a.text.has_value() != a.prompts.empty()) throw UsageError("why: expected a text, or --prompts FILE");
  const LayerPart head = parse_head(a.head, "--head");
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  const AttentionKind kind = analyzed_kind(a.kind, *loaded.model, "why");
  if (!a.prompts.empty()) return run_on_prompts(a, loaded, kind, globals);
  const WhyInput input = why_input(a, loaded, kind, globals);
  const std::int64_t query = a.query.value_or(std::ssize(input.queries) - 1);
  const Explained e{.score = score_of(a, loaded, kind, input),
                    .kind = kind,
                    .head = head,
                    .query = query,
                    .query_tokens = input.queries,
                    .key_tokens = input.keys};
  warn_of_non_finite(*loaded.model, std::isfinite(e.score.score), globals);
  const auto shown = [&](const std::vector<std::string>& tokens) {
    return loaded.reads_files() ? tokens : inspect::shown_tokens(tokens, loaded.tokenizer.get());
  };
  const std::string title =
      fmt::format("Why {}head {}.{} attends from {} to {}", kind_words(kind), head.layer, head.head,
                  place_of(shown(e.query_tokens), query), place_of(shown(e.key_tokens), e.score.key));
  show_why(e, a, title, input.subtitle, globals);
}

}  // namespace

void add_why(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("why", "Show what makes a head attend from one token to another");
  auto a = std::make_shared<WhyArguments>();
  command->add_option("text", a->text,
                      "The text; for an encoder of images or sounds, a file, or - for stdin");
  command
      ->add_option(
          "--prompts", a->prompts,
          "Instead of a text: rows with clean (and target); the mean over them, with standard errors")
      ->type_name("FILE.jsonl|.tsv|.csv")
      ->group("Input");
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command->add_option("--head", a->head, "The head: its layer and its number, counted from 0")
      ->required()
      ->type_name("LAYER.HEAD")
      ->group("Output");
  command->add_option("--query", a->query, "The position that attends (default: the last)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Output");
  command
      ->add_option("--key", a->key,
                   "The position that it attends to (default: the one with the largest weight)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group("Output");
  command
      ->add_option("--kind", a->kind,
                   "Whose self-attention, or cross-attention (default: that of the stack that predicts)")
      ->type_name("encoder|decoder|cross")
      ->group("Output");
  command->add_option("--top-k", a->top_k, "Pairs and parts to list")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Output");
  add_table_output(*command, a->output, kTableOutput);
  command->footer(
      "Examples:\n"
      "  heed why \"The cat sat on the mat. The cat\" --model gpt2 --head 5.1\n"
      "  heed why \"The cat sat on the mat. The cat\" --model gpt2 --head 5.1 --query 8 --key 2 --output "
      "why.svg\n"
      "  heed why --prompts prompts.tsv --model gpt2 --head 5.1 --output why.csv\n"
      "  heed why photo.jpg --model ./vit --head 3.0 --query 0\n"
      "  heed why \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --head 1.3 --kind cross --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
