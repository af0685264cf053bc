// heed fill: predicts the masked tokens of a text.
#include "heed/tasks/fill.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct FillArguments : TaskArguments {
  std::int64_t top_k = 5;
};

void write_candidates(JsonWriter& json, const std::vector<FillCandidate>& candidates) {
  json.begin_array();
  for (const FillCandidate& one : candidates) {
    json.begin_object()
        .field("ids", std::vector<std::int64_t>{one.id})
        .field("text", one.token)
        .field("score", one.log_probability)
        .field("probability", one.probability)
        .field("sequence", one.sequence)
        .end_object();
  }
  json.end_array();
}

// Prints a list of candidates, or, for several masks, a list of such lists.
void print_json(const FilledText& filled) {
  JsonWriter json;
  if (filled.size() == 1) {
    write_candidates(json, filled.front());
  } else {
    json.begin_array();
    for (const std::vector<FillCandidate>& candidates : filled) write_candidates(json, candidates);
    json.end_array();
  }
  print_stdout("{}\n", json.text());
}

void print_text(const FilledText& filled) {
  std::string line;
  for (const std::vector<FillCandidate>& candidates : filled) {
    if (!line.empty()) line += "\t|";
    for (const FillCandidate& one : candidates)
      line += (line.empty() ? "" : "\t") + one.token + " " + short_score(one.probability);
  }
  print_stdout("{}\n", line);
}

void run(const FillArguments& arguments, const Globals& globals) {
  const LoadedModel loaded = open_model_to(Task::fill, arguments.model, arguments.weights, globals);
  for_each_line(
      text_arguments(arguments.texts, globals.quiet), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        return loaded.fill(texts, arguments.top_k, options);
      },
      [&](const FilledText& filled, const Line&) { globals.json ? print_json(filled) : print_text(filled); });
}

}  // namespace

void add_fill(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "fill", "Fill the masks of texts with the likeliest tokens (BERT-style masked language models)");
  auto a = std::make_shared<FillArguments>();
  add_task_options(*command, *a, "Texts with the model's mask token; without any, the lines of stdin");
  OptionGroup output(*command, "Output");
  output.count("--top-k", a->top_k, 1, "Number of tokens to list for each mask, the likeliest first");
  command->footer(
      "Examples:\n"
      "  heed fill --model bert-base-uncased \"Paris is the [MASK] of France.\"\n"
      "  heed fill --model roberta-base --top-k 3 --json \"Tea is <mask> hot.\" \"Ice is <mask>.\"");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
