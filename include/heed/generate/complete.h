// Text generation with a decoder, from text to text: tokenizes prompts, searches, and decodes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/generate/search.h"
#include "heed/grammar/grammar.h"
#include "heed/text/task_options.h"

namespace HEED_API heed {

class Tokenizer;

struct CompleteOptions {
  TaskOptions task = {};
  GenerationOptions generation = {};
  /// Texts that end a continuation. They are kept in the result.
  std::vector<std::string> stop_strings = {};
  /// Constrains the continuations (docs/structured.md): one that ends with an end token is a text of the
  /// grammar.
  std::optional<Grammar> grammar = {};
  /// Called after every token of prompt `index`, sequence `sequence_index` of that prompt, with the text that
  /// has become final (possibly empty), and at the end with the rest. The parts join to Completion::text.
  /// Returning false ends that sequence; the others continue. Not available with beam search, whose texts are
  /// known only at the end.
  std::function<bool(std::size_t index, std::size_t sequence_index, const std::string& text)> on_text = {};
  /// Converts a prompt to token ids; empty: prompt_ids().
  std::function<std::vector<std::int64_t>(const std::string& prompt)> encode = {};
  /// SearchHooks::taps.
  Taps* taps = nullptr;
};

/// One continuation of a prompt.
struct Completion {
  /// The text that the new tokens add to the prompt (Tokenizer::decode_continuation). Prompt + text is the
  /// full text, so `text` often begins with a space.
  std::string text;
  Hypothesis hypothesis;
};

/// Returns the ids of a prompt, including special tokens. An empty prompt becomes the begin-of-text token.
/// Throws Error if there is none.
std::vector<std::int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt,
                                     const GenerationOptions& options);

/// Continues every prompt. Returns one entry per prompt, in order, each with its best continuation first. A
/// prompt that leaves no room for a new token (see check_prompt) is reported to on_error; on_warning receives
/// prompts longer than the training texts, and continuations that the model's last position ended.
std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::string> prompts,
                                              const CompleteOptions& options);

/// The same for prompts as ids. A prompt that leaves no room is an Error.
std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options);

}  // namespace heed
