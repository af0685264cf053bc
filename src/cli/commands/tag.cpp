// heed tag: predicts labels of tokens, and the entities they form.
#include "heed/tasks/tag.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/input/model_commands.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct TagArguments : TaskArguments {
  TagOptions tagging;
};

void print_json(const std::vector<TaggedText>& tagged, bool tokens) {
  JsonWriter json;
  json.begin_array();
  for (const TaggedText& one : tagged) {
    json.begin_object().field(tokens ? "entity" : "entity_group", one.label).field("score", one.score);
    if (tokens) json.field("index", one.index);
    json.field("word", one.word).field("start", one.start).field("end", one.end).end_object();
  }
  fmt::print("{}\n", json.end_array().text());
}

void print_text(const std::vector<TaggedText>& tagged) {
  std::string line;
  for (const TaggedText& one : tagged) {
    line += fmt::format("{}{} {} {}-{} {}", line.empty() ? "" : "\t", one.label, one.word, one.start, one.end,
                        short_score(one.score));
  }
  fmt::print("{}\n", line);
}

void run(TagArguments arguments, const Globals& globals) {
  const auto loaded =
      open_model_to<EncoderModel>(Task::tag, arguments.model, weight_options(arguments.weights), globals);
  for_each_line(
      arguments.texts, arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        arguments.tagging.task = options;
        return tag(*loaded.model, *loaded.tokenizer, texts, arguments.tagging);
      },
      [&](const std::vector<TaggedText>& tagged, const Line&) {
        globals.json ? print_json(tagged, arguments.tagging.aggregation == Aggregation::none)
                     : print_text(tagged);
      });
}

}  // namespace

void add_tag(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("tag", "Find the entities of texts with a token classifier");
  auto a = std::make_shared<TagArguments>();
  add_task_options(*command, *a, "Texts; without any, the lines of stdin");
  OptionGroup output(*command, "Output"), input(*command, "Input");
  output.choice<Aggregation>("--aggregation", a->tagging.aggregation,
                             {{"none", Aggregation::none},
                              {"simple", Aggregation::simple},
                              {"first", Aggregation::first},
                              {"average", Aggregation::average},
                              {"max", Aggregation::max}},
                             "How token labels become entities: none (a label per token), simple (join equal "
                             "labels), or the label of "
                             "a word from its first token, average, or max score");
  input.count("--stride", a->tagging.stride, 0, "Tokens by which the windows of a long text overlap");
  command->footer(
      "Examples:\n"
      "  heed tag --model ./ner \"Ada Lovelace lived in London.\"\n"
      "  heed tag --model ./ner --aggregation first --json < texts.txt");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
