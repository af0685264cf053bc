// Training of SentencePiece models (Kudo & Richardson, "SentencePiece: A simple and language independent
// subword tokenizer and detokenizer for neural text processing", EMNLP 2018).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// Assigns the next sentence to its argument, or returns false at the end.
using SentenceSource = std::function<bool(std::string& sentence)>;

struct SentencePieceOptions {
  std::string model_type = "unigram";  ///< unigram or bpe
  std::int64_t vocab_size =
      8000;  ///< number of pieces, including those added by the options below and by the id layout
  double character_coverage = 0.9995;      ///< fraction of the text's characters that get a piece, 0.98 to 1
  bool byte_fallback = false;              ///< encode other characters as byte pieces instead of <unk>
  std::int64_t max_sentence_bytes = 4192;  ///< longer sentences are skipped (and counted)
  std::vector<std::string> user_defined_symbols;  ///< always one piece each, never split or merged
  std::string normalization = "nmt_nfkc";  ///< nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf (case folded) or identity
};

/// Counts of used and skipped sentences.
struct SentencePieceReport {
  std::int64_t used = 0;
  std::int64_t blank = 0;  ///< no visible characters
  std::int64_t too_long = 0;
  std::int64_t invalid_utf8 = 0;
  std::int64_t reserved_character = 0;  ///< contain U+2585, which the trainer reserves
};

/// Trains a model and returns it as the bytes of a .model or .spm file, with `</s>` = 0 and `<unk>` = 1. The
/// same sentences and options give the same bytes on any number of processors. Throws Error if an option is
/// out of range, if there is no text, or if the text is too small for vocab_size pieces (the message gives
/// the possible number).
std::string train_sentencepiece(const SentencePieceOptions& options, const SentenceSource& sentences,
                                SentencePieceReport* report = nullptr);

/// Returns a source that iterates over `sentences`, which must outlive it.
SentenceSource sentences_of(const std::vector<std::string>& sentences);

}  // namespace heed
