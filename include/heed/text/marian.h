// The Marian tokenizer of translation models: a SentencePiece model per side splits text into pieces, and
// vocab.json, usually shared by both sides, maps pieces to ids. The layout and the results are those
// of MarianTokenizer in Hugging Face transformers without the optional sacremoses package: punctuation is
// not normalized as by Moses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "heed/export.h"
#include "heed/text/sentencepiece.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

/// Loads source.spm, target.spm and vocab.json; tokenizer_config.json and special_tokens_map.json if they
/// exist; and target_vocab.json if tokenizer_config.json sets `separate_vocabs`.
///
/// Encoding appends `</s>`. A language code `>>xx<<` at the start of a text is one token, and so are special
/// tokens anywhere in it. Pieces that are not in the vocabulary become `<unk>`. Decoding takes target ids,
/// joins their pieces with target.spm and strips white space at both ends. With separate vocabularies,
/// vocab_size() and the special ids are those of the source, while decode() and token() take target ids.
///
/// Throws Error naming the file and the field if something is missing, malformed or contradictory.
std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::filesystem::path& directory);
std::unique_ptr<Tokenizer> load_marian_tokenizer(const ModelFiles& model);

struct MarianTokenizerOptions {
  /// vocab_size here is the translation model's: it includes `<pad>`, which is not a SentencePiece piece.
  SentencePieceOptions sentencepiece;
  std::string source_language;
  std::string target_language;
  std::int64_t model_max_length = 512;
};

/// Trains one SentencePiece model for both sides on sentences of both. The ids follow Marian: `</s>` = 0,
/// `<unk>` = 1, then the pieces, and `<pad>` = vocab_size - 1, which also starts the decoder. Throws Error as
/// train_sentencepiece does.
std::unique_ptr<Tokenizer> train_marian_tokenizer(const MarianTokenizerOptions& options,
                                                  const SentenceSource& sentences,
                                                  SentencePieceReport* report = nullptr);

}  // namespace heed
