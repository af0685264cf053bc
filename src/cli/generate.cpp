// heed generate: continues prompts with a decoder. The text of a single prompt is streamed.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "cli/generation_arguments.h"
#include "cli/hypotheses.h"
#include "cli/input.h"
#include "cli/model_commands.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/signals.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/cancelled.h"
#include "heed/generate/complete.h"

namespace heed::cli {
namespace {

struct GenerateArguments {
  std::vector<std::string> texts;
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;
  std::vector<std::string> stop;
  ModelChoice model;
  std::string dtype = "f32";
  std::int64_t batch_tokens = 4096;
  bool full_text = false;
  GenerationArguments generation;
};

// A batch of prompts.
struct Prompts {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::string> texts;
  std::size_t first = 0;  // line number of the first
};

struct GenerateSession {
  const GenerateArguments& arguments;
  const Globals& globals;
  std::unique_ptr<DecoderModel> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the model has none and ids suffice
  CompleteOptions options;
  bool one_line = true;           // one line of output per result
  bool warned_of_length = false;  // a prompt beyond the trained positions has been warned of
};

// With one line of output per result, line ends within a text are written as \n.
std::string escape_newlines(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      line += c;
    }
  }
  return line;
}

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
  if (session.globals.json) {
    print_json(hypotheses, texts, session.options.generation, full_texts);
  } else {
    print_text(index, texts, hypotheses, session.options.generation);
  }
}

// Prints the text of one prompt while it is generated.
void stream(GenerateSession& session, const Prompts& prompts) {
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    fmt::print("{}", safe_for_stdout(session.one_line ? escape_newlines(text) : text));
    flush_results();
  };
  CompleteOptions options = session.options;
  options.on_text = [&](std::size_t, std::size_t, const std::string& text) {
    show(text);
    return true;
  };
  if (session.arguments.full_text) show(prompts.texts.front());
  try {
    complete(*session.model, *session.tokenizer, prompts.ids, options);
  } catch (const Cancelled&) {
    fmt::print("\n");
    flush_results();
    throw;
  }
  fmt::print("\n");
}

void continue_prompts(GenerateSession& session, const Prompts& prompts) {
  if (prompts.ids.empty()) return;
  const GenerationOptions& generation = session.options.generation;
  session.options.first_prompt = prompts.first;
  if (prompts.ids.size() == 1 && !session.globals.json && generation.num_return_sequences == 1 &&
      generation.num_beams == 1)
    return stream(session, prompts);
  if (session.tokenizer == nullptr) {  // ids in, ids out
    const SearchHooks hooks{.stop = session.options.stop};
    const auto found =
        search_prompts(*session.model, prompts.ids, generation, session.options.batch_tokens, hooks);
    for (const auto& hypotheses : found)
      print_json(hypotheses, std::vector<std::optional<std::string>>(hypotheses.size()), generation);
    return;
  }
  const auto found = complete(*session.model, *session.tokenizer, prompts.ids, session.options);
  for (std::size_t i = 0; i < found.size(); ++i)
    print_completions(session, prompts.first + i, prompts.texts[i], found[i]);
}

// Models without a maximum position accept texts longer than those they were trained on, but work less well.
void warn_beyond_training(GenerateSession& session, std::size_t line, std::int64_t length) {
  const auto trained = trained_length(*session.model, *session.tokenizer);
  if (session.globals.quiet || session.warned_of_length || !trained || length <= *trained) return;
  warn(fmt::format("line {}: {} tokens, more than the {} the model was trained on", line + 1, length,
                   *trained));
  session.warned_of_length = true;
}

void continue_lines(GenerateSession& session) {
  constexpr std::size_t kWindow = 64;
  std::vector<std::string> given = session.arguments.texts;
  given.insert(given.end(), session.arguments.prompts.begin(), session.arguments.prompts.end());
  session.one_line = given.empty() ? isatty(STDIN_FILENO) == 0 : given.size() > 1;
  FailedLines failed(session.globals.json);
  TextWindows windows(given, session.globals.quiet, kWindow);
  std::size_t line = 0;
  for (std::vector<std::string> texts; windows.next(texts);) {
    Prompts prompts;
    prompts.first = line;
    for (std::string& text : texts) {
      const std::size_t at = line++;
      text = valid_text(text, fmt::format("line {}", at + 1), session.globals.quiet);
      try {
        std::vector<std::int64_t> ids = prompt_ids(*session.tokenizer, text, session.options.generation);
        check_prompt(*session.model, ids, session.options.generation);
        warn_beyond_training(session, at, static_cast<std::int64_t>(ids.size()));
        prompts.ids.push_back(std::move(ids));
        prompts.texts.push_back(std::move(text));
      } catch (const Error& error) {
        continue_prompts(session, std::exchange(prompts, {}));
        prompts.first = line;
        failed.add(at, error.what());
        failed.print_in_place_of(at);
      }
    }
    continue_prompts(session, prompts);
    flush_results();
  }
  failed.finish();
}

void continue_ids(GenerateSession& session) {
  Prompts prompts;
  for (const std::string& list : session.arguments.prompt_ids) {
    prompts.ids.push_back(token_ids(list, "--prompt-ids", session.model->vocab_size()));
    const bool wanted = session.arguments.full_text && session.tokenizer != nullptr;
    prompts.texts.push_back(wanted ? session.tokenizer->decode_clean(prompts.ids.back()) : "");
  }
  session.one_line = prompts.ids.size() > 1;
  continue_prompts(session, prompts);
}

void run(const GenerateArguments& arguments, const Globals& globals) {
  const bool text = !arguments.texts.empty() || !arguments.prompts.empty();
  if (text && !arguments.prompt_ids.empty())
    throw UsageError("generate: expected text or --prompt-ids, got both");
  const LocatedModel located = locate_model(arguments.model);
  const std::filesystem::path& directory = located.directory;
  GenerateSession session{arguments, globals, nullptr, nullptr, {}};
  session.options.generation = arguments.generation.load(directory, globals);
  session.options.batch_tokens = arguments.batch_tokens;
  session.options.stop_strings = arguments.stop;
  for (const std::string& stop : arguments.stop) {
    if (stop.empty()) throw UsageError("--stop: expected a text, got an empty one");
  }
  session.model = load_model_to<DecoderModel>("continue text", located, weights_dtype(arguments.dtype));
  warn_of_unknown_settings(*session.model, directory, globals);
  check_tokens(arguments.generation, session.options.generation, session.model->vocab_size(), directory,
               globals.quiet);
  try {
    session.tokenizer = load_tokenizer(directory);
  } catch (const Error&) {
    // If neither input nor output is text, no tokenizer is needed.
    if (arguments.prompt_ids.empty() || !globals.json || !arguments.stop.empty() || arguments.full_text)
      throw;
  }
  session.options.stop = &stop_flag();
  if (arguments.prompt_ids.empty()) return continue_lines(session);
  continue_ids(session);
}

}  // namespace

void add_generate(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("generate", "Continue prompts with a decoder (a language model such as GPT-2)");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("text", a->texts, "Prompts; without any, the lines of stdin");
  command->add_option("--prompt,-p", a->prompts, "A prompt")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group("Input");
  command->add_option("--prompt-ids", a->prompt_ids, "A prompt as token ids, e.g. 5,6,7")
      ->allow_extra_args(false)
      ->type_name("IDS")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  add_dtype_option(*command, a->dtype);
  command
      ->add_option("--batch-tokens", a->batch_tokens,
                   "Largest number of prompt tokens, padding included, in one batch; bounds memory")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Model");
  command->add_option("--stop", a->stop, "A text that ends the continuation, which includes it")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group("Generation: lengths");
  a->generation.add_to(*command);
  command->add_flag("--full-text", a->full_text, "Print the prompt before its continuation")->group("Output");
  command->footer(
      std::string(kGenerationNote) +
      "Examples:\n"
      "  heed generate --model gpt2 --prompt \"Once upon a time\" --max-new-tokens 50\n"
      "  heed generate --model gpt2 --do-sample --temperature 0.8 --top-p 0.9 --seed 7 \"The sea was\"\n"
      "  heed generate --model gpt2 --num-beams 4 --json < prompts.txt > continuations.jsonl\n"
      "  heed generate --model gpt2 --prompt-ids 15496,995 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
