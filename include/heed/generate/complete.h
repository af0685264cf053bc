// Text generation with a decoder, from text to text: tokenize prompts, search, decode.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/generate/search.h"
#include "heed/text/tokenizer.h"

namespace heed {

struct CompleteOptions {
  GenerationOptions generation = {};
  std::int64_t batch_tokens = 4096;  ///< see search_prompts
  /// Texts that end a continuation; they are kept in the result.
  std::vector<std::string> stop_strings = {};
  /// Index of the first prompt in a longer input, which determines the random streams.
  std::size_t first_prompt = 0;
  /// Called after every token with the text of prompt `index`, sequence `copy`, that has become certain
  /// (perhaps none), and at last with the rest; the pieces join to Completion::text. Returning false ends
  /// that sequence, and the call goes on with the others. Not with beams, whose text is known at their end
  /// only.
  std::function<bool(std::size_t index, std::size_t copy, const std::string& text)> on_text = {};
  /// Cancels the call once true, also within the prompt's forward pass: it throws Cancelled.
  const std::atomic<bool>* stop = nullptr;
};

/// One continuation of a prompt.
struct Completion {
  /// What the new tokens add to the prompt's text (Tokenizer::decode_continuation): put behind the prompt, it
  /// gives the full text, so it mostly begins with a space.
  std::string text;
  Hypothesis hypothesis;
};

/// The ids of a prompt, including special tokens; an empty prompt becomes the begin-of-text token. Throws
/// Error when there is none.
std::vector<std::int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt,
                                     const GenerationOptions& options);

/// Continues every prompt; the result has one entry per prompt, in order, each with its best continuation
/// first.
std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options);

}  // namespace heed
