// heed generate: continues prompts with a decoder, streaming the text of a single one.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "cli/cli.h"
#include "cli/generation_arguments.h"
#include "cli/hypotheses.h"
#include "cli/input.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/terminal.h"
#include "heed/generate/complete.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

struct GenerateArguments {
  std::vector<std::string> texts;
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;
  std::vector<std::string> stop;
  std::string model;
  std::string dtype = "f32";
  std::int64_t batch_tokens = 4096;
  GenerationArguments generation;
};

struct GenerateSession {
  const GenerateArguments& arguments;
  const Globals& globals;
  std::unique_ptr<DecoderModel> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the model has none and ids do
  CompleteOptions options;
};

GenerationOptions generation_of(const GenerateArguments& arguments, const Globals& globals,
                                const std::filesystem::path& directory) {
  std::vector<std::string> unused;
  GenerationOptions options = load_generation_options(directory, &unused);
  if (!globals.quiet) {
    for (const std::string& key : unused)
      warn((directory / "generation_config.json").string() + ": " + key + " is not followed");
  }
  arguments.generation.apply_to(options);
  if (globals.seed) options.seed = *globals.seed;
  return options;
}

// Several results share the output line by line, so a text's own line ends are written as \n.
std::string with_visible_ends(const std::string& text) {
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

void print_completions(const GenerateSession& session, std::size_t index,
                       const std::vector<Completion>& completions) {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::optional<std::string>> texts;
  for (const Completion& completion : completions) {
    hypotheses.push_back(completion.hypothesis);
    texts.emplace_back(session.globals.json ? completion.text : with_visible_ends(completion.text));
  }
  if (session.globals.json) {
    print_json(hypotheses, texts, session.options.generation);
  } else {
    print_text(index, texts, hypotheses, session.options.generation);
  }
}

// The text of one prompt as it comes.
void stream(GenerateSession& session, std::span<const std::vector<std::int64_t>> prompts) {
  session.options.on_text = [](std::size_t, std::size_t, const std::string& text) {
    if (text.empty()) return;
    fmt::print("{}", text);
    flush_results();
  };
  complete(*session.model, *session.tokenizer, prompts, session.options);
  fmt::print("\n");
}

void continue_ids(GenerateSession& session, const std::vector<std::vector<std::int64_t>>& prompts,
                  bool whole_input) {
  const GenerationOptions& generation = session.options.generation;
  const bool one = prompts.size() == 1 && whole_input && !session.globals.json;
  if (one && generation.num_return_sequences == 1) {
    if (generation.num_beams == 1) return stream(session, prompts);
    const auto found = complete(*session.model, *session.tokenizer, prompts, session.options);
    fmt::print("{}\n", found.front().front().text);
    return;
  }
  if (session.tokenizer == nullptr) {  // ids in, ids out
    SearchOptions watch;
    const auto found = search_prompts(*session.model, prompts, generation, session.options.batch_tokens);
    for (const auto& hypotheses : found)
      print_json(hypotheses, std::vector<std::optional<std::string>>(hypotheses.size()), generation);
    return;
  }
  const auto found = complete(*session.model, *session.tokenizer, prompts, session.options);
  for (std::size_t i = 0; i < found.size(); ++i)
    print_completions(session, session.options.first_prompt + i, found[i]);
}

void continue_lines(GenerateSession& session) {
  constexpr std::size_t kWindow = 64;
  std::vector<std::string> given = session.arguments.texts;
  given.insert(given.end(), session.arguments.prompts.begin(), session.arguments.prompts.end());
  const bool from_stdin = given.empty();
  std::size_t at = 0;
  bool first = true;
  for (bool more = true; more; first = false) {
    std::vector<std::vector<std::int64_t>> prompts;
    std::string line;
    while (prompts.size() < kWindow) {
      more = from_stdin ? next_line(line) : at < given.size();
      if (!more) break;
      if (!from_stdin) line = given[at];
      const std::string where = fmt::format("prompt {}", ++at);
      line = valid_text(line, where, session.globals.quiet);
      try {
        prompts.push_back(prompt_ids(*session.tokenizer, line, session.options.generation));
      } catch (const Error& error) {
        throw Error(where + ": " + error.what());
      }
    }
    if (prompts.empty()) break;
    session.options.first_prompt = at - prompts.size();
    continue_ids(session, prompts, first && (!from_stdin ? !(at < given.size()) : prompts.size() < kWindow));
    flush_results();
  }
}

void run(const GenerateArguments& arguments, const Globals& globals) {
  const bool text = !arguments.texts.empty() || !arguments.prompts.empty();
  if (text && !arguments.prompt_ids.empty())
    throw UsageError("generate: expected text or --prompt-ids, got both");
  const std::filesystem::path directory = locate_model(arguments.model);
  GenerateSession session{arguments, globals, nullptr, nullptr, {}};
  session.options.generation = generation_of(arguments, globals, directory);
  session.options.batch_tokens = arguments.batch_tokens;
  session.options.stop_strings = arguments.stop;
  for (const std::string& stop : arguments.stop) {
    if (stop.empty()) throw UsageError("--stop: expected a text with characters, got an empty one");
  }
  session.model = load_decoder(directory, weights_dtype(arguments.dtype));
  warn_of_unknown_settings(*session.model, directory, globals);
  check_tokens(arguments.generation, session.options.generation, session.model->vocab_size(), directory,
               globals.quiet);
  try {
    session.tokenizer = load_tokenizer(directory);
  } catch (const Error&) {
    // Without text in or out none is needed.
    if (arguments.prompt_ids.empty() || !globals.json || !arguments.stop.empty()) throw;
  }
  if (arguments.prompt_ids.empty()) return continue_lines(session);
  std::vector<std::vector<std::int64_t>> prompts;
  for (const std::string& list : arguments.prompt_ids)
    prompts.push_back(token_ids(list, "--prompt-ids", session.model->vocab_size()));
  continue_ids(session, prompts, true);
}

}  // namespace

void add_generate(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("generate", "Continue prompts, given as arguments or line by line on stdin");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("text", a->texts, "Prompts; without any, the lines of stdin");
  command->add_option("--model,-m", a->model, "Model directory or name")->required();
  command->add_option("--prompt,-p", a->prompts, "A prompt (repeatable)")->allow_extra_args(false);
  command->add_option("--prompt-ids", a->prompt_ids, "Token ids instead of text, e.g. 5,6,7 (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--stop", a->stop, "Text that ends a continuation, which keeps it (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--dtype", a->dtype, "Weights in memory: f32 or bf16")->capture_default_str();
  command->add_option("--batch-tokens", a->batch_tokens, "Padded prompt tokens continued at a time")
      ->transform(whole_number(1))
      ->capture_default_str();
  a->generation.add_to(*command);
  command->footer(
      "Examples:\n"
      "  heed generate --model gpt2 --prompt \"Once upon a time\" --max-new-tokens 50\n"
      "  heed generate --model gpt2 --do-sample --temperature 0.8 --top-p 0.9 --seed 7 \"The sea was\"\n"
      "  heed generate --model gpt2 --num-beams 4 --json < prompts.txt > continuations.jsonl\n"
      "  heed generate --model gpt2 --prompt-ids 15496,995 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
