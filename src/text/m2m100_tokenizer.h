// M2M100's tokenizer: a SentencePiece model splits the text, vocab.json gives the ids of the pieces, and the
// languages follow them.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/text/tokenizer.h"

namespace heed {

/// Loads sentencepiece.bpe.model, vocab.json and, if they exist, tokenizer_config.json, added_tokens.json and
/// special_tokens_map.json. The result is that of M2M100Tokenizer in transformers 5.12.1, except that the
/// tokens of all languages are matched in a text. Throws Error naming file and field.
std::unique_ptr<Tokenizer> load_m2m100_tokenizer(const std::filesystem::path& directory);

}  // namespace heed
