// Text generation with a decoder, from text to text: tokenizes prompts, searches, and decodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/generate/search.h"

namespace HEED_API heed {

class Tokenizer;

struct CompleteOptions {
  GenerationOptions generation = {};
  std::int64_t batch_tokens = 4096;  ///< see search_prompts
  /// Texts that end a continuation. They are kept in the result.
  std::vector<std::string> stop_strings = {};
  /// Index of the first prompt in a longer input. It determines the random streams.
  std::size_t first_prompt = 0;
  /// Called after every token with the text of prompt `index`, sequence `copy`, that has become final
  /// (possibly empty), and at the end with the rest. The parts join to Completion::text. Returning false ends
  /// that sequence; the others continue. Not available with beam search, whose texts are known only at the
  /// end.
  std::function<bool(std::size_t index, std::size_t copy, const std::string& text)> on_text = {};
  /// Cancels the call once true, also within the prompt's forward pass: it throws Cancelled.
  const std::atomic<bool>* stop = nullptr;
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

/// Continues every prompt. Returns one entry per prompt, in order, each with its best continuation first.
std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options);

}  // namespace heed
