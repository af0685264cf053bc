// The Marian tokenizer of translation models: a SentencePiece model per side cuts text into pieces, and
// vocab.json, usually shared by both sides, gives the pieces their ids. The layout and the results are those
// of MarianTokenizer in Hugging Face transformers without the optional sacremoses package: no Moses
// normalisation of punctuation is applied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "heed/text/sentencepiece.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// Loads source.spm, target.spm and vocab.json, and where they are there tokenizer_config.json and
/// special_tokens_map.json (and target_vocab.json, where tokenizer_config.json says `separate_vocabs`).
///
/// Encoding appends `</s>`. A language code `>>xx<<` at the start of a text, and special tokens anywhere in
/// it, are one token each. Pieces that are not in the vocabulary become `<unk>`. Decoding takes target ids,
/// spells them through target.spm and strips the ends. With separate vocabularies, vocab_size() and the
/// special ids are the source's, while decode() and token() take target ids.
///
/// Throws Error naming the file and the field where something is missing, malformed or contradicts itself.
std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::filesystem::path& directory);

struct MarianTokenizerOptions {
  /// Here vocab_size is the model's: it counts `<pad>`, which is not one of SentencePiece's pieces.
  SentencePieceOptions sentencepiece;
  std::string source_language;
  std::string target_language;
  std::int64_t model_max_length = 512;
};

/// Trains one SentencePiece model for both sides on sentences of both. Ids are laid out as Marian does:
/// `</s>` = 0, `<unk>` = 1, the pieces, and `<pad>`, which also starts the decoder, = vocab_size - 1. Throws
/// what train_sentencepiece throws.
std::unique_ptr<Tokenizer> train_marian_tokenizer(const MarianTokenizerOptions& options,
                                                  const SentenceSource& sentences,
                                                  SentencePieceReport* report = nullptr);

}  // namespace heed
