// From text to text with a decoder: tokenise prompts, search, detokenise.
#pragma once

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
  /// Texts that end a continuation, which keeps them.
  std::vector<std::string> stop_strings = {};
  /// Index of the first prompt in a longer input, for its random draws.
  std::size_t first_prompt = 0;
  /// Told the text of prompt `index`, sequence `copy`, as it is made, and at last that it is done. Not with
  /// beams, whose text is known at their end only.
  std::function<void(std::size_t index, std::size_t copy, const std::string& text)> on_text = {};
};

/// One continuation of a prompt.
struct Completion {
  std::string text;  ///< of the new tokens alone
  Hypothesis hypothesis;
};

/// The ids of a prompt with what the tokenizer adds around it; an empty prompt is the token that begins
/// texts. Throws Error when there is none.
std::vector<std::int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt,
                                     const GenerationOptions& options);

/// Continues every prompt; the result has their order and number, the best of each first.
std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options);

}  // namespace heed
