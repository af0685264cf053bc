// heed answer: answers a question from a context.
#include "heed/tasks/answer.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct AnswerArguments : TaskArguments {
  std::optional<std::string> context;
  std::string context_file;
  AnswerOptions answering;
};

void write_answer(JsonWriter& json, const Answer& one) {
  json.begin_object()
      .field("answer", one.text)
      .field("score", one.score)
      .field("start", one.start)
      .field("end", one.end)
      .end_object();
}

// Prints one answer as an object, or several as a list.
void print_json(const std::vector<Answer>& answers, bool list) {
  JsonWriter json;
  if (list) json.begin_array();
  for (const Answer& one : answers) write_answer(json, one);
  if (list) json.end_array();
  print_stdout("{}\n", json.text());
}

void print_text(const std::vector<Answer>& answers) {
  std::string line;
  for (const Answer& one : answers) {
    line += fmt::format("{}{} {}-{} {}", line.empty() ? "" : "\t", one.text.empty() ? "(none)" : one.text,
                        one.start, one.end, short_score(one.score));
  }
  print_stdout("{}\n", line);
}

// Returns the text on one line: each question has one line of output, which white space in an answer must not
// break.
std::string on_one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return text;
}

void run(AnswerArguments arguments, const Globals& globals) {
  if (arguments.context.has_value() == !arguments.context_file.empty())
    throw UsageError(arguments.context ? "answer: expected --context or --context-file, got both"
                                       : "answer: missing --context or --context-file (the text that holds "
                                         "the answers)");
  if (!arguments.answering.impossible && arguments.answering.null_factor != AnswerOptions().null_factor &&
      !globals.quiet)
    warn("--null-threshold has no effect without --impossible");
  const std::string context = arguments.context ? valid_text(*arguments.context, "--context", globals.quiet)
                                                : valid_text(read_file(arguments.context_file),
                                                             arguments.context_file, globals.quiet);
  const LoadedModel loaded = open_model_to(Task::answer, arguments.model, arguments.weights, globals);
  for_each_line(
      text_arguments(arguments.texts, globals.quiet), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        arguments.answering.task = options;
        std::vector<Question> questions;
        for (const std::string& text : texts) questions.push_back({text, context});
        return loaded.answer(questions, arguments.answering);
      },
      [&](std::vector<Answer>& answers, const Line&) {
        if (globals.json) return print_json(answers, arguments.answering.top_k > 1);
        for (Answer& one : answers) one.text = on_one_line(one.text);
        print_text(answers);
      });
}

}  // namespace

void add_answer(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("answer", "Answer questions with a span of a text (extractive question answering)");
  auto a = std::make_shared<AnswerArguments>();
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--question", a->texts, "TEXT", "A question; without any, the lines of stdin");
  input.value("--context", a->context, "TEXT", "The text to find the answers in");
  input.value("--context-file", a->context_file, "FILE", "A file with that text");
  input.count("--max-input-tokens", a->answering.max_input_tokens, 1,
              "Tokens of the windows into which a long context is split, question included");
  input.count("--stride", a->answering.stride, 0, "Tokens by which the windows of a long context overlap");
  add_model_options(*command, *a)->required();
  output.count("--top-k", a->answering.top_k, 1, "Number of answers to each question, the likeliest first");
  output.count("--max-answer-tokens", a->answering.max_answer_tokens, 1,
               "Largest number of tokens in an answer");
  output.flag("--impossible", a->answering.impossible,
              "Allow \"no answer\", for models trained on questions without one (SQuAD 2.0)");
  output.number("--null-threshold", a->answering.null_factor,
                "With --impossible: \"no answer\" wins when it is X times as likely as the best span");
  command->footer(
      "Examples:\n"
      "  heed answer --model ./squad --question \"Who wrote it?\" --context \"Mary Shelley wrote it in "
      "1818.\"\n"
      "  heed answer --model ./squad2 --impossible --top-k 3 --json --context-file page.txt < questions.txt");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
