// The bytes that each token adds to a text.
#pragma once

#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

/// Returns for each id the bytes that its token adds to a text after other tokens: part of a character, for
/// tokens of byte-level BPE and bytes of SentencePiece (`<0xC3>`). Empty for special tokens, ids without a
/// token, and tokens that add nothing.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace heed
