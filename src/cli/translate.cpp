// heed translate: text (or token ids) through an encoder-decoder, line by line.
#include "heed/generate/translate.h"

#include <fmt/core.h>
#include <algorithm>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "cli/generation_arguments.h"
#include "cli/hypotheses.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/pictures.h"
#include "cli/terminal.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

constexpr const char* kCrossAttention = "decoder.layers.*.cross_attn.weights";

struct TranslateArguments {
  std::vector<std::string> texts;
  std::vector<std::string> prompt_ids;
  std::optional<std::filesystem::path> input;
  std::optional<std::string> decoder_input_ids;
  std::string model = kDefaultTranslator;
  std::string dtype = "f32";
  std::string long_lines = "cut";
  std::string task;
  std::optional<std::string> prefix;
  std::int64_t batch_tokens = 4096;
  std::filesystem::path attention;
  GenerationArguments generation;
};

struct Session {
  const TranslateArguments& arguments;
  const Globals& globals;
  std::filesystem::path directory;
  std::unique_ptr<EncoderDecoderModel> model;
  GenerationOptions generation;
  std::string prefix;
  LongLines long_lines;
};

LongLines long_lines_named(const std::string& name) {
  if (name == "cut") return LongLines::cut;
  if (name == "split") return LongLines::split;
  if (name == "error") return LongLines::error;
  throw UsageError("--long-lines: expected cut, split or error, got " + name);
}

// The model's options, under those of the task, under those of the command line; and the prefix of every
// text.
std::pair<GenerationOptions, std::string> generation_options(const TranslateArguments& arguments,
                                                             const Globals& globals,
                                                             const std::filesystem::path& directory) {
  std::vector<std::string> unused;
  GenerationOptions options = load_generation_options(directory, &unused);
  if (!globals.quiet) {
    for (const std::string& key : unused)
      warn((directory / "generation_config.json").string() + ": " + key + " is not followed");
  }
  std::string prefix;
  if (!arguments.task.empty()) prefix = apply_task(directory, arguments.task, options);
  arguments.generation.apply_to(options);
  if (globals.seed) options.seed = *globals.seed;
  return {options, arguments.prefix.value_or(prefix)};
}

// FILE with -N before its ending for the N-th of several.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index) {
  return file.parent_path() /
         (file.stem().string() + "-" + std::to_string(index + 1) + file.extension().string());
}

void write_attention(const Translation& translation, const std::string& text,
                     const std::filesystem::path& file) {
  const TranslationCandidate& best = translation.candidates.front();
  if (best.hypothesis.ids.empty()) return;  // an empty line has nothing to look at
  AttentionPicture picture;
  picture.title = replace_invalid_utf8(text) + " → " + best.text;
  picture.tokens["cross"] = {best.tokens, translation.source_tokens};
  std::int64_t layer = 0;
  for (const auto& [name, weights] : best.hypothesis.captured)
    add_maps(picture, name, "cross", layer++, weights, {});
  write_picture(picture, file);
}

void translate_texts(const Session& session) {
  const TranslateArguments& arguments = session.arguments;
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(session.directory);
  TranslateOptions options;
  options.generation = session.generation;
  options.batch_tokens = arguments.batch_tokens;
  options.long_lines = session.long_lines;
  options.prefix = session.prefix;
  if (!arguments.attention.empty()) options.capture = {kCrossAttention};
  std::size_t done = 0;
  options.warn = [&](std::size_t line, const std::string& message) {
    if (!session.globals.quiet) warn("line " + std::to_string(line + 1) + ": " + message);
  };
  FailedLines failed(session.globals.json);
  options.refuse = [&](std::size_t line, const std::string& message) { failed.add(line, message); };
  options.stop = &interrupt_flag();
  TextWindows lines(arguments.texts);
  std::vector<std::string> window;
  while (lines.next(window)) {
    options.first_line = done;
    const std::vector<Translation> translations = translate(*session.model, *tokenizer, window, options);
    for (std::size_t i = 0; i < translations.size(); ++i) {
      if (failed.print_in_place_of(done + i)) continue;
      std::vector<Hypothesis> hypotheses;
      std::vector<std::optional<std::string>> texts;
      for (const TranslationCandidate& candidate : translations[i].candidates) {
        hypotheses.push_back(candidate.hypothesis);
        texts.emplace_back(candidate.text);
      }
      if (session.globals.json) {
        print_json(hypotheses, texts, session.generation);
      } else {
        print_text(done + i, texts, hypotheses, session.generation);
      }
      if (!arguments.attention.empty()) {
        flush_results();
        const bool only = done == 0 && window.size() == 1 && lines.at_end();
        write_attention(translations[i], window[i],
                        only ? arguments.attention : numbered(arguments.attention, done + i));
      }
    }
    flush_results();
    done += window.size();
  }
  failed.finish();
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

std::vector<std::vector<Hypothesis>> search_ids(const Session& session) {
  std::vector<std::vector<std::int64_t>> sources;
  for (const std::string& list : session.arguments.prompt_ids)
    sources.push_back(source_ids(list, *session.model));
  return search_sources(*session.model, sources, session.generation, session.arguments.batch_tokens,
                        {.stop = &interrupt_flag()});
}

std::vector<std::vector<Hypothesis>> search_sound(const Session& session) {
  const TranslateArguments& arguments = session.arguments;
  std::vector<std::int64_t> prompt;
  if (arguments.decoder_input_ids) {
    prompt = token_ids(*arguments.decoder_input_ids, "--decoder-input-ids", session.model->vocab_size());
  }
  const SafetensorsFile file = SafetensorsFile::open(*arguments.input);
  return search_features(*session.model, file.get("input_features"), prompt, session.generation,
                         arguments.batch_tokens, {.stop = &interrupt_flag()});
}

// Numbers in, token ids out; the text too, where the model has a tokenizer.
void translate_numbers(const Session& session) {
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = load_tokenizer(session.directory);
  } catch (const Error& error) {
    if (!session.globals.json) throw;  // without text there would be nothing to print
  }
  const auto results = session.arguments.input ? search_sound(session) : search_ids(session);
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::vector<std::optional<std::string>> texts;
    for (const Hypothesis& h : results[i]) {
      texts.push_back(tokenizer ? std::optional(tokenizer->decode(h.ids)) : std::nullopt);
    }
    if (session.globals.json) {
      print_json(results[i], texts, session.generation);
    } else {
      print_text(i, texts, results[i], session.generation);
    }
  }
}

void run(const TranslateArguments& arguments, const Globals& globals) {
  const bool ids = !arguments.prompt_ids.empty(), sound = arguments.input.has_value();
  if ((arguments.texts.empty() ? 0 : 1) + (ids ? 1 : 0) + (sound ? 1 : 0) > 1)
    throw UsageError("translate: expected one of text, --prompt-ids and --input, got several");
  if (!sound && arguments.decoder_input_ids)
    throw UsageError("--decoder-input-ids: expected --input, got none");
  const char* numbers = ids ? "--prompt-ids" : "--input";
  if (arguments.prefix && (ids || sound))
    throw UsageError(fmt::format("--prefix: expected text to put it before, got {}", numbers));
  const LongLines long_lines = long_lines_named(arguments.long_lines);
  if (!arguments.attention.empty()) {
    if (ids || sound) throw UsageError(fmt::format("--attention: expected text, got {}", numbers));
    if (long_lines == LongLines::split)
      throw UsageError("--attention: expected lines that are cut or refused, got --long-lines split");
    check_picture_file(arguments.attention);
  }
  const std::filesystem::path directory = locate_model(arguments.model);
  const auto options = generation_options(arguments, globals, directory);
  const Session session{arguments,     globals,
                        directory,     load_encoder_decoder(directory, weights_dtype(arguments.dtype)),
                        options.first, options.second,
                        long_lines};
  warn_of_unknown_settings(*session.model, directory, globals);
  check_tokens(arguments.generation, options.first, session.model->vocab_size(), directory, globals.quiet);
  if (ids || sound) {
    translate_numbers(session);
  } else {
    translate_texts(session);
  }
}

}  // namespace

void add_translate(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("translate", "Translate text, given as arguments or line by line on stdin");
  auto a = std::make_shared<TranslateArguments>();
  command->add_option("text", a->texts, "Texts to translate; without any, the lines of stdin");
  command->add_option("--model,-m", a->model, "Model directory or name")->capture_default_str();
  command->add_option("--dtype", a->dtype, "Weights in memory: f32 or bf16")->capture_default_str();
  command
      ->add_option("--prompt-ids", a->prompt_ids, "Source token ids instead of text, e.g. 5,6,0 (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--input,-i", a->input,
                      "Safetensors file with input_features [B, bins, frames] instead of text, for Whisper");
  command->add_option("--decoder-input-ids", a->decoder_input_ids,
                      "With --input: ids the transcript starts with, e.g. 50258,50259,50359,50363");
  command->add_option("--batch-tokens", a->batch_tokens, "Padded source tokens translated at a time")
      ->transform(whole_number(1))
      ->capture_default_str();
  command
      ->add_option("--long-lines", a->long_lines,
                   "Lines longer than the model's positions: cut, split or error")
      ->capture_default_str();
  command->add_option("--prefix", a->prefix, "Put before every text, e.g. \"translate English to German: \"");
  command->add_option("--task", a->task,
                      "Follow the config's task_specific_params of this name: its prefix, lengths and beams");
  command->add_option(
      "--attention", a->attention,
      "Also write the cross-attention: FILE.html, .svg, .json or .npy; FILE-N for the N-th of several texts");
  a->generation.add_to(*command);
  command->footer(
      "Examples:\n"
      "  heed translate \"The cat sat on the mat.\"\n"
      "  heed translate --num-beams 5 < english.txt > french.txt\n"
      "  heed translate --model t5-small --prefix \"translate English to German: \" \"I like tea.\"\n"
      "  heed translate --model bart-large-cnn < article.txt\n"
      "  heed translate --model whisper-tiny --input features.safetensors --decoder-input-ids "
      "50258,50259,50359,50363\n"
      "  heed translate --num-beams 4 --num-return-sequences 4 --json \"Good morning.\"\n"
      "  heed translate \"I like tea.\" --attention tea.html");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
