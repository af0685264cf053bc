// heed generate: continues prompts with a decoder. The text of a single prompt is streamed.
#include <fmt/core.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/tap_options.h"
#include "cli/options/task_arguments.h"
#include "cli/results/results.h"
#include "cli/terminal/terminal.h"
#include "files/input_file.h"
#include "generate/option_fields.h"
#include "heed/chat/model_chat.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/generate/complete.h"
#include "heed/io/safetensors.h"
#include "heed/text/tokenizer.h"
#include "inspect/taps.h"

namespace heed::cli {
namespace {

struct GenerateArguments : TaskArguments {
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;
  ChatArguments chat;
  std::vector<std::string> stop;
  std::string json_schema;  // a file, or the schema
  bool json_schema_lax = false;
  std::optional<std::string> regex;
  bool full_text = false;
  GenerationArguments generation;
  std::vector<std::string> taps;
  std::filesystem::path tapped, replacements;
};

struct GenerateSession {
  const GenerateArguments& arguments;
  const Globals& globals;
  LoadedModel model;
  CompleteOptions options;
  std::vector<std::string> given = {};  // texts, or conversations as JSON; none: the lines of stdin
  bool one_line = true;                 // one line of output per result

  // Whether the text of a single prompt is printed while it is generated.
  bool streams() const {
    const GenerationOptions& generation = options.generation;
    return !globals.json && generation.num_return_sequences == 1 && generation.num_beams == 1;
  }
};

using Completions = std::vector<std::vector<Completion>>;

void print_completions(const GenerateSession& session, std::size_t index, const std::string& prompt,
                       const std::vector<Completion>& completions) {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::optional<std::string>> texts;
  std::vector<std::string> full_texts;
  for (const Completion& completion : completions) {
    hypotheses.push_back(completion.hypothesis);
    const std::string full = prompt + completion.text;
    if (session.arguments.full_text) full_texts.push_back(full);
    const std::string& shown = session.arguments.full_text && !session.globals.json ? full : completion.text;
    texts.emplace_back(session.globals.json || !session.one_line ? shown : escape_newlines(shown));
  }
  print_hypotheses(session.globals.json, index, hypotheses, texts, session.options.generation, full_texts);
}

// Prints the text of one prompt while `run`, called with options for this, generates it.
Completions stream(const GenerateSession& session, const std::string& prompt,
                   const std::function<Completions(const CompleteOptions&)>& run) {
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    print_stdout("{}", session.one_line ? escape_newlines(text) : text);
    flush_results();
  };
  bool begun = false;
  CompleteOptions options = session.options;
  options.on_text = [&](std::size_t, std::size_t, const std::string& text) {
    if (!std::exchange(begun, true) && session.arguments.full_text) show(prompt);
    show(text);
    return true;
  };
  try {
    return run(options);
  } catch (const Canceled&) {
    print_stdout("\n");
    flush_results();
    throw;
  }
}

void continue_lines(GenerateSession& session) {
  constexpr std::size_t kWindow = 64;
  const std::vector<std::string>& given = session.given;
  session.one_line = given.empty() ? isatty(STDIN_FILENO) == 0 : given.size() > 1;
  const auto compute = [&](const std::vector<std::string>& texts, const TaskOptions& options) {
    session.options.task = options;
    const auto run = [&](const CompleteOptions& with) {
      return complete(session.model.decoder(), session.model.tokenizer(), texts, with);
    };
    const bool streams = texts.size() == 1 && session.streams();
    return streams ? stream(session, texts.front(), run) : run(session.options);
  };
  const auto print = [&](const std::vector<Completion>& completions, const Line& line) {
    const bool streamed = line.window.texts.size() == 1 && session.streams();
    streamed ? print_stdout("\n") : print_completions(session, line.index, line.text, completions);
  };
  for_each_line(given, session.arguments.batch_tokens, session.globals, compute, print, kWindow);
}

// Ids in, ids out.
void continue_without_tokenizer(const GenerateSession& session,
                                const std::vector<std::vector<std::int64_t>>& prompts) {
  const CompleteOptions& options = session.options;
  const auto found =
      search_prompts(session.model.decoder(), prompts, options.generation, options.task.batch_tokens,
                     {.taps = options.taps, .stop = options.task.stop});
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Hypothesis& best = found[i].front();
    if (best.finish_reason == FinishReason::positions)
      options.task.warn(i, positions_warning(best, std::ssize(prompts[i]), options.generation));
    print_hypotheses(true, i, found[i], std::vector<std::optional<std::string>>(found[i].size()),
                     options.generation);
  }
}

void continue_ids(GenerateSession& session) {
  std::vector<std::vector<std::int64_t>> prompts;
  for (const std::string& list : session.arguments.prompt_ids)
    prompts.push_back(token_ids(list, "--prompt-ids", session.model.model().vocab_size()));
  FailedLines failed(session.globals.json);
  session.options.task = line_options(session.globals, session.arguments.batch_tokens, failed);
  if (!session.model.has_tokenizer()) return continue_without_tokenizer(session, prompts);
  const auto text_of = [&](const std::vector<std::int64_t>& prompt) {
    return session.arguments.full_text ? session.model.tokenizer().decode_clean(prompt) : "";
  };
  session.one_line = prompts.size() > 1;
  const auto run = [&](const CompleteOptions& with) {
    return complete(session.model.decoder(), session.model.tokenizer(), prompts, with);
  };
  if (prompts.size() == 1 && session.streams()) {
    stream(session, text_of(prompts.front()), run);
    print_stdout("\n");
    return;
  }
  const Completions found = run(session.options);
  for (std::size_t i = 0; i < found.size(); ++i) print_completions(session, i, text_of(prompts[i]), found[i]);
}

// Taps are those of one row of tokens.
void check_taps(const GenerateArguments& a, std::size_t prompts, const GenerationOptions& generation) {
  if (a.taps.empty() && a.replacements.empty()) return;
  if (a.taps.empty() != a.tapped.empty())
    throw UsageError("--taps: expected --taps and --taps-output together, got one of them");
  const char* option = a.taps.empty() ? "--replace" : "--taps";
  if (prompts != 1)
    throw UsageError(fmt::format("{}: expected one prompt as an argument, got {}", option, prompts));
  if (generation.num_beams > 1 || generation.num_return_sequences > 1)
    throw UsageError(std::string(option) +
                     ": expected one continuation without beams, got --num-beams or --num-return-sequences");
}

void continue_prompts(GenerateSession& session) {
  session.arguments.prompt_ids.empty() ? continue_lines(session) : continue_ids(session);
}

void continue_tapped(GenerateSession& session, const std::vector<TapRequest>& requests) {
  inspect::GeneratedTaps generated;
  const std::filesystem::path& file = session.arguments.replacements;
  if (!file.empty()) {
    for (const NamedReplacement& one : replacements_of(file))
      generated.replace(one.request, one.value, file.string());
  }
  generated.record(requests);
  session.options.taps = &generated.taps();
  continue_prompts(session);
  generated.taps().require_all_fired();
  if (requests.empty()) return;
  std::vector<NamedTensor> values;
  const TensorMap recorded = generated.recorded();
  for (const auto& [name, value] : recorded) values.push_back({name, value});
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  add_tap_names(recorded, metadata);
  save_safetensors(session.arguments.tapped, values, metadata);
  if (!session.globals.quiet) print_stderr("wrote " + session.arguments.tapped.string());
}

void check_input(const GenerateArguments& a) {
  const bool text = !a.texts.empty() || !a.prompts.empty();
  if (text && !a.prompt_ids.empty()) throw UsageError("generate: expected text or --prompt-ids, got both");
  if (text && !a.chat.messages.empty()) throw UsageError("generate: expected text or --messages, got both");
  if (!a.chat.any()) return;
  if (!a.prompt_ids.empty())
    throw UsageError("--prompt-ids: expected no conversation, got --messages, --chat or --system");
  if (a.full_text) throw UsageError("--full-text: expected a text to continue, got a conversation");
}

// Makes prompts of conversations.
void open_chat(GenerateSession& session, const std::vector<GivenChat>& chats) {
  const ModelChat& chat = session.model.chat_templates();
  if (chats.size() == 1) chat.prompt(chats.front().json, chats.front().where);  // names the file
  session.options.encode = [&](const std::string& given) {
    const bool text = session.arguments.chat.of_texts();
    return session.model.chat_templates()
        .prompt(text ? chat_of(given, session.arguments.chat.system) : given)
        .encoding.ids;
  };
  generate::allow_whole_length(session.model.decoder(), session.options.generation);
}

std::optional<Grammar> grammar_of(const GenerateArguments& a, bool quiet) {
  if (!a.json_schema.empty() && a.regex) throw UsageError("--regex: expected no --json-schema with it");
  if (a.regex) return Grammar::regex(*a.regex, "--regex");
  if (a.json_schema.empty()) return std::nullopt;
  const bool is_text = a.json_schema.starts_with('{');
  if (!is_text) require_file("--json-schema", a.json_schema);
  Grammar grammar =
      Grammar::json_schema(is_text ? a.json_schema : read_file(a.json_schema),
                           is_text ? "--json-schema" : shown_name(a.json_schema),
                           a.json_schema_lax ? UnsupportedKeywords::ignored : UnsupportedKeywords::refused);
  for (const std::string& note : grammar.notes())
    if (!quiet) warn(note);
  return grammar;
}

void run(const GenerateArguments& arguments, const Globals& globals) {
  check_input(arguments);
  const std::vector<TapRequest> requests = parse_taps(arguments.taps, "--taps");
  GenerateSession session{
      arguments, globals, open_model(arguments.model, globals, arguments.weights, true), {}};
  const std::filesystem::path directory = session.model.directory();
  session.given = text_arguments(arguments.texts, globals.quiet);
  session.given.insert(session.given.end(), arguments.prompts.begin(), arguments.prompts.end());
  std::vector<GivenChat> chats;
  if (!arguments.chat.messages.empty()) chats = read_chats(arguments.chat.messages, "--messages");
  for (const GivenChat& chat : chats) session.given.push_back(chat.json);
  session.options.generation = arguments.generation.load(directory, globals);
  session.options.stop_strings = arguments.stop;
  session.options.grammar = grammar_of(arguments, globals.quiet);
  check_taps(arguments, session.given.size() + arguments.prompt_ids.size(), session.options.generation);
  for (const std::string& stop : arguments.stop) {
    if (stop.empty()) throw UsageError("--stop: expected a text, got an empty one");
  }
  require_task(session.model, Task::generate, globals);
  check_tokens(arguments.generation, session.options.generation, session.model.model().vocab_size(),
               directory, globals.quiet);
  const bool ids_suffice = !arguments.prompt_ids.empty() && globals.json && arguments.stop.empty() &&
                           !arguments.full_text && !session.options.grammar;
  if (!ids_suffice) static_cast<void>(session.model.tokenizer());  // says what is missing
  if (arguments.chat.any()) open_chat(session, chats);
  const bool listens = !requests.empty() || !arguments.replacements.empty();
  listens ? continue_tapped(session, requests) : continue_prompts(session);
}

}  // namespace

void add_generate(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("generate", "Continue prompts with a decoder (a language model such as GPT-2)");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("text", a->texts, "Prompts; without any, the lines of stdin");
  OptionGroup input(*command, "Input"), lengths(*command, "Generation: lengths"),
      constraints(*command, "Generation: constraints"), output(*command, "Output");
  input.value("--prompt,-p", a->prompts, "TEXT", "A prompt");
  input.value("--prompt-ids", a->prompt_ids, "IDS", "A prompt as token ids, e.g. 5,6,7");
  a->chat.add_to(*command);
  add_model_options(*command, *a)->required();
  lengths.value("--stop", a->stop, "TEXT", "A text that ends the continuation, which includes it");
  CLI::Option* schema = constraints.value(
      "--json-schema", a->json_schema, "FILE",
      "A file with the JSON Schema of the continuation, or the schema itself, which begins with {; the "
      "continuation is JSON of that kind, unless its length ends it");
  constraints
      .flag(
          "--json-schema-lax", a->json_schema_lax,
          "Ignore constraints of the schema that cannot be followed (multipleOf, not, if, ...), rather than "
          "refuse it")
      ->needs(schema);
  constraints.value("--regex", a->regex, "PATTERN",
                    "Regular expression that the continuation matches, in the same way");
  a->generation.add_to(*command, "20; of a conversation " + std::string(kLongestAnswer));
  output.flag("--full-text", a->full_text, "Print the prompt before its continuation");
  input.value("--replace", a->replacements, "FILE",
              "Safetensors file with tensors named like taps, whose values they replace at the positions "
              "that they have");
  CLI::Option* taps = output.value("--taps", a->taps, "PATTERN",
                                   "Also write these values, of the positions of prompt and continuation: "
                                   "decoder.layers.*.self_attn.weights[heads=3]");
  output.value("--taps-output", a->tapped, "FILE", "Safetensors file to write the values of --taps to")
      ->needs(taps);
  command->footer(
      std::string(kGenerationNote) +
      "Examples:\n"
      "  heed generate --model gpt2 --prompt \"Once upon a time\" --max-new-tokens 50\n"
      "  heed generate --model ./smollm2 --chat \"Name a fruit.\" --json-schema fruit.json\n"
      "  heed generate --model gpt2 --do-sample --temperature 0.8 --top-p 0.9 --seed 7 \"The sea was\"\n"
      "  heed generate --model gpt2 --num-beams 4 --json < prompts.txt > continuations.jsonl\n"
      "  heed generate --model gpt2 --prompt-ids 15496,995 --json\n"
      "  heed generate --model SmolLM2-135M-Instruct --chat \"Why is the sky blue?\"\n"
      "  heed generate --model SmolLM2-135M-Instruct --messages chats.jsonl --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
