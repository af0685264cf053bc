// Cuts a text that is too long for a model into parts that fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text/tokenizer.h"

namespace heed::generate {

/// Parts of a text (valid UTF-8) of at most `max_tokens` source tokens each, special tokens not counted. A
/// part ends at the last end of a sentence that fits, else at the last space, else between two tokens. Spaces
/// around parts are dropped. Put together, the parts are the text.
std::vector<std::string> split_text(std::string_view text, const Tokenizer& tokenizer,
                                    std::int64_t max_tokens);

}  // namespace heed::generate
