// Splits a text that is too long for a model into parts that fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text/tokenizer.h"

namespace heed::generate {

/// Splits a text (valid UTF-8) into parts of at most `max_tokens` source tokens each, not counting special
/// tokens. A part ends at the last end of a sentence that fits, otherwise at the last space, otherwise
/// between two tokens. Spaces around parts are dropped. Apart from them, the parts join to the text.
std::vector<std::string> split_text(std::string_view text, const Tokenizer& tokenizer,
                                    std::int64_t max_tokens);

}  // namespace heed::generate
