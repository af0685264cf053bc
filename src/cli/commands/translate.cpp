// heed translate: translates text (or token ids) with an encoder-decoder, line by line.
#include "heed/generate/translate.h"

#include <fmt/core.h>
#include <algorithm>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/results.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "heed/io/safetensors.h"
#include "inspect/recorded_picture.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

constexpr const char* kCrossAttention = "decoder.layers.*.cross_attn.weights";

struct TranslateArguments : TaskArguments {
  std::vector<std::string> prompt_ids;
  std::optional<std::filesystem::path> input;
  std::optional<std::string> decoder_input_ids;
  LongLines long_lines = LongLines::cut;
  std::string task;
  std::optional<std::string> prefix;
  LanguageChoice languages;
  std::filesystem::path attention;
  GenerationArguments generation;
};

struct TranslateSession {
  const TranslateArguments& arguments;
  const Globals& globals;
  const LoadedModel& model;
  GenerationOptions generation;
  std::string prefix;
};

void write_attention(const Translation& translation, const std::string& text, const TranslateSession& session,
                     const std::filesystem::path& file) {
  const TranslationCandidate& best = translation.candidates.front();
  if (best.hypothesis.ids.empty()) return;  // an empty line has no attention
  AttentionPicture picture;
  picture.title = text + " → " + best.text;
  picture.model.name = title_of(session.arguments.model);
  picture.model.task = inspect::task_of(session.model.model());
  AttentionTokens& tokens = picture.tokens["cross"] = {best.tokens, translation.source_tokens};
  if (file.extension() != ".json")
    tokens = {inspect::shown_tokens(tokens.queries, &session.model.tokenizer()),
              inspect::shown_tokens(tokens.keys, &session.model.tokenizer())};
  RecordedLayer layer;
  layer.kind = "cross";
  for (const auto& [name, weights] : best.hypothesis.captured) {
    layer.name = name.substr(0, name.rfind(".weights"));
    layer.weights = weights;
    inspect::add_heads(picture, layer, weights, "weights");
    ++layer.layer;
  }
  write_picture(picture, file);
}

void print_translation(const TranslateSession& session, std::size_t index, const Translation& translation) {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::optional<std::string>> texts;
  for (const TranslationCandidate& candidate : translation.candidates) {
    hypotheses.push_back(candidate.hypothesis);
    texts.emplace_back(candidate.text);
  }
  print_hypotheses(session.globals.json, index, hypotheses, texts, session.generation);
}

void translate_texts(const TranslateSession& session) {
  const TranslateArguments& arguments = session.arguments;
  TranslateOptions options;
  options.generation = session.generation;
  options.long_lines = arguments.long_lines;
  options.prefix = session.prefix;
  if (!arguments.attention.empty()) options.capture = {kCrossAttention};
  const auto compute = [&](const std::vector<std::string>& texts, const TaskOptions& of_lines) {
    options.task = of_lines;
    return session.model.translate(texts, options);
  };
  const auto print = [&](const Translation& translation, const Line& line) {
    print_translation(session, line.index, translation);
    if (arguments.attention.empty()) return;
    flush_results();
    write_attention(translation, line.text, session,
                    line.is_only() ? arguments.attention : numbered(arguments.attention, line.index));
  };
  for_each_line(text_arguments(arguments.texts, session.globals.quiet), arguments.batch_tokens,
                session.globals, compute, print);
}

std::vector<std::int64_t> source_ids(const std::string& list, const Model& model) {
  std::vector<std::int64_t> ids = token_ids(list, "--prompt-ids", model.vocab_size());
  const auto count = static_cast<std::int64_t>(ids.size());
  if (const auto positions = model.max_positions(); positions && count > *positions) {
    throw UsageError(fmt::format("--prompt-ids: expected at most {} ids, the model's positions, got {}",
                                 *positions, count));
  }
  return ids;
}

// Results of token ids or features, and the length of the decoder's prompt.
struct Found {
  std::vector<std::vector<Hypothesis>> results;
  std::int64_t prompt_length = 1;
};

Found search_ids(const TranslateSession& session) {
  std::vector<std::vector<std::int64_t>> sources;
  for (const std::string& list : session.arguments.prompt_ids)
    sources.push_back(source_ids(list, session.model.model()));
  return {search_sources(session.model.encoder_decoder(), sources, session.generation,
                         session.arguments.batch_tokens, {.stop = &stop_flag()})};
}

// A text in its place is a likely mistake.
SafetensorsFile features_file(const std::filesystem::path& path) {
  try {
    return SafetensorsFile::open(path);
  } catch (const Error& error) {
    if (path.extension() == ".safetensors" || !std::filesystem::is_regular_file(path)) throw;
    throw UsageError("--input: expected a safetensors file with the features of sounds, got " +
                     path.string() + " (texts come from stdin: heed translate < " + path.string() + ")");
  }
}

Found search_sound(const TranslateSession& session) {
  const TranslateArguments& arguments = session.arguments;
  std::vector<std::int64_t> prompt;
  if (arguments.decoder_input_ids) {
    prompt =
        token_ids(*arguments.decoder_input_ids, "--decoder-input-ids", session.model.model().vocab_size());
  }
  const SafetensorsFile file = features_file(*arguments.input);
  return {search_features(session.model.encoder_decoder(), file.get(session.model.model().input().name),
                          prompt, session.generation, arguments.batch_tokens, {.stop = &stop_flag()}),
          std::max<std::int64_t>(1, std::ssize(prompt))};
}

// Translates token ids to token ids, and to text too if the model has a tokenizer.
void translate_numbers(const TranslateSession& session) {
  const bool decodes = !session.globals.json || session.model.has_tokenizer();
  if (decodes) static_cast<void>(session.model.tokenizer());  // without text there would be nothing to print
  const Found found = session.arguments.input ? search_sound(session) : search_ids(session);
  FailedLines failed(session.globals.json);
  const TaskOptions options = line_options(session.globals, session.arguments.batch_tokens, failed);
  for (std::size_t i = 0; i < found.results.size(); ++i) {
    const Hypothesis& best = found.results[i].front();
    if (best.finish_reason == FinishReason::positions)
      options.warn(i, positions_warning(best, found.prompt_length, session.generation));
    std::vector<std::optional<std::string>> texts;
    for (const Hypothesis& h : found.results[i]) {
      texts.push_back(decodes ? std::optional(session.model.tokenizer().decode(h.ids)) : std::nullopt);
    }
    print_hypotheses(session.globals.json, i, found.results[i], texts, session.generation);
  }
}

void run(const TranslateArguments& arguments, const Globals& globals) {
  const bool ids = !arguments.prompt_ids.empty(), sound = arguments.input.has_value();
  if ((arguments.texts.empty() ? 0 : 1) + (ids ? 1 : 0) + (sound ? 1 : 0) > 1)
    throw UsageError("translate: expected one of text, --prompt-ids and --input, got several");
  if (!sound && arguments.decoder_input_ids)
    throw UsageError("--decoder-input-ids: missing --input (the features to transcribe)");
  const char* numbers = ids ? "--prompt-ids" : "--input";
  if (arguments.prefix && (ids || sound))
    throw UsageError(fmt::format("--prefix: cannot be combined with {} (it goes before a text)", numbers));
  if (arguments.languages.given() != nullptr && (ids || sound))
    throw UsageError(
        fmt::format("{}: cannot be combined with {} (it takes texts)", arguments.languages.given(), numbers));
  if (processes().size() > 1 && (ids || sound || !arguments.attention.empty()))
    throw UsageError(
        "translate: expected texts only, which several processes share (no --prompt-ids, --input or "
        "--attention)");
  if (!arguments.attention.empty()) {
    if (ids || sound)
      throw UsageError(fmt::format("--attention: cannot be combined with {} (it takes texts)", numbers));
    if (arguments.long_lines == LongLines::split)
      throw UsageError("--attention: cannot be combined with --long-lines split (use cut or error)");
    check_picture_file(arguments.attention);
  }
  LoadedModel model = open_model(arguments.model, globals, arguments.weights, true);
  std::string prefix;
  GenerationOptions options = arguments.generation.load(model.directory(), globals, arguments.task, &prefix);
  require_task(model, Task::translate, globals, {Task::transcribe});
  if (!ids && !sound && !model.can(Task::translate)) refuse(model, Task::translate);
  if (!arguments.attention.empty() && !model.encoder_decoder().has_cross_attention())
    throw UsageError("--attention: expected a model with cross-attention, got " + model.kind() +
                     " without (config.json: attention)");
  if (!ids && !sound) choose_languages(arguments.languages, arguments.generation, model, options);
  check_tokens(arguments.generation, options, model.model().vocab_size(), model.directory(), globals.quiet);
  const TranslateSession session{arguments, globals, model, options, arguments.prefix.value_or(prefix)};
  if (ids || sound) {
    translate_numbers(session);
  } else {
    translate_texts(session);
  }
}

}  // namespace

void add_translate(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "translate", "Translate or summarize texts, or transcribe speech, with an encoder-decoder");
  auto a = std::make_shared<TranslateArguments>();
  command->add_option("text", a->texts, "Source texts; without any, the lines of stdin");
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--prompt-ids", a->prompt_ids, "IDS", "A source text as token ids, e.g. 5,6,0");
  input.value("--input,-i", a->input, "FILE",
              "Safetensors file with input_features [B, bins, frames] (Whisper) or input_values [B, samples] "
              "(Moonshine) instead of text");
  input.value("--decoder-input-ids", a->decoder_input_ids, "IDS",
              "With --input: token ids the transcript starts with, e.g. 50258,50259,50359,50363");
  input.value("--prefix", a->prefix, "TEXT",
              "Text to put before every source text, e.g. \"translate English to German: \" for T5");
  add_language_options(*command, a->languages);
  input.value("--task-params", a->task, "NAME",
              "Use the settings of this name in the config's task_specific_params: prefix, lengths, beams");
  input.choice<LongLines>(
      "--long-lines", a->long_lines,
      {{"cut", LongLines::cut}, {"split", LongLines::split}, {"error", LongLines::error}},
      "Source texts longer than the model's largest number of positions are cut, split, or an error");
  a->model.name = kDefaultTranslator;
  add_model_options(*command, *a)->capture_default_str();
  a->generation.add_to(*command, std::string(kLongestTarget) + "; with --prompt-ids or --input 20");
  output.value(
      "--attention", a->attention, "FILE",
      "Also write the cross-attention, as .html, .svg, .pdf, .png, .json or .npy; of several texts, to "
      "FILE-N for the N-th");
  command->footer(
      std::string(kGenerationNote) +
      "Examples:\n"
      "  heed translate \"The cat sat on the mat.\"\n"
      "  heed translate --num-beams 5 < english.txt > french.txt\n"
      "  heed translate --model t5-small --prefix \"translate English to German: \" \"I like tea.\"\n"
      "  heed translate --model nllb-200-distilled-600M --source-language fra_Latn --target-language "
      "deu_Latn "
      "< french.txt\n"
      "  heed translate --model bart-large-cnn < article.txt\n"
      "  heed translate --model whisper-tiny --input features.safetensors --decoder-input-ids "
      "50258,50259,50359,50363\n"
      "  heed translate --num-beams 4 --num-return-sequences 4 --json \"Good morning.\"\n"
      "  heed translate \"I like tea.\" --attention tea.html");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
