// What translate() has the model read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/generate/translate.h"
#include "heed/text/tokenizer.h"

namespace heed::generate {

/// The parts of all lines, concatenated, and the line that each belongs to. A blank line has none.
struct TranslationSources {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::vector<std::string>> tokens;
  std::vector<std::size_t> first_part;  ///< index of each line's first part, and one past the last
};

/// Throws Error as translate() does before it searches.
TranslationSources translation_sources(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                       std::span<const std::string> texts, const TranslateOptions& options);

// Splits a text that is too long for a model into parts that fit.

/// Splits a text (valid UTF-8) into parts of at most `max_tokens` source tokens each, not counting special
/// tokens. A part ends at the last end of a sentence that fits, otherwise at the last space, otherwise
/// between two tokens. Spaces around parts are dropped. Apart from them, the parts join to the text.
std::vector<std::string> split_text(std::string_view text, const Tokenizer& tokenizer,
                                    std::int64_t max_tokens);

}  // namespace heed::generate
