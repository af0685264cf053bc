// Training of tokenizers. Vocabularies from a corpus are saved as a tokenizer.json that Hugging Face's
// tokenizers and transformers also open. SentencePiece models (Kudo & Richardson, "SentencePiece: A simple
// and language independent subword tokenizer and detokenizer for neural text processing", EMNLP 2018) and
// Marian's tokenizers are files of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/text/tokenizer.h"

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

/// What to train. The types:
/// - `character`: each character of the corpus is a token; the ids follow the code points. `<unk>`, the last
///   id, replaces any other character.
/// - `word`: words and punctuation marks as BERT's normalizer and pre-tokenizer split them, the most frequent
///   first; `[PAD] [UNK] [CLS] [SEP] [MASK]` come before them, and any other word is `[UNK]`. A text becomes
///   `[CLS] A [SEP]`.
/// - `byte_bpe`: GPT-2's byte-level BPE (Radford et al. 2019) with its pre-tokenizer: `<|endoftext|>`, the
///   256 bytes, then merged pairs. Any text can be encoded, and decoding gives it back.
/// - `wordpiece`: BERT's (Devlin et al. 2018), with its normalizer and pre-tokenizer: `[PAD] [UNK] [CLS]
///   [SEP] [MASK]`, the characters, those inside words as `##x`, then merged pairs. A text becomes
///   `[CLS] A [SEP]`.
/// - `unigram`, `bpe`: SentencePiece's (Kudo & Richardson 2018), trained by its library: `</s> <unk>`, the
///   user-defined symbols, bytes with byte_fallback, the pieces, `<pad>`. White space at the ends of a text
///   is dropped, and runs of spaces count as one.
///
/// `special_tokens` gives byte_bpe, unigram and bpe those of an encoder-decoder instead:
/// - `t5` (Raffel et al. 2020): `<pad> </s> <unk>`, the pieces, and the sentinels `<extra_id_99>` to
///   `<extra_id_0>`, the last id. A text becomes `A </s>`.
/// - `bart` (Lewis et al. 2020): `<s> <pad> </s> <unk>`, the pieces, `<mask>`. A text becomes `<s> A </s>`.
struct TokenizerTraining {
  std::string type = "byte_bpe";
  std::string special_tokens = {};  ///< t5, bart; empty: those of the type
  std::int64_t vocab_size = 8000;  ///< largest number of tokens; exact for unigram and bpe; not for character
  /// byte_bpe, wordpiece: rarer pairs of tokens are not merged, as in the examples of the tokenizers library;
  /// word: rarer words are unknown.
  std::int64_t min_frequency = 2;
  bool lower_case = true;  ///< word, wordpiece: capitals and accents are removed, as in BERT's uncased models
  std::int64_t most_characters = 1000;  ///< wordpiece: of more characters, the rarest are unknown
  bool append_end = false;              ///< `<|endoftext|>` (byte_bpe) or `</s>` (unigram, bpe) after a text
  std::optional<std::int64_t> model_max_length = {};
  SentencePieceOptions sentencepiece = {};  ///< unigram, bpe: without model_type and vocab_size
};

struct TokenizerTrainingReport {
  std::int64_t texts = 0;
  std::int64_t bytes = 0;
  std::int64_t words = 0;             ///< different ones, as the pre-tokenizer splits them
  std::int64_t replaced_in_utf8 = 0;  ///< invalid sequences, each replaced by U+FFFD
  std::int64_t skipped = 0;  ///< unigram, bpe: texts that are blank or too long (see SentencePieceReport)
};

/// Trains a tokenizer. Texts are read once, and only their different words are kept, so the corpus may be
/// larger than memory (not for unigram and bpe). Each text is split on its own: line ends are learned if the
/// texts contain them (see lines_of_file). The same texts and options give the same tokenizer. If the corpus
/// has too few pairs, the vocabulary is smaller than vocab_size. save() writes tokenizer.json,
/// tokenizer_config.json and special_tokens_map.json. Throws Error if an option is out of range, if there is
/// no text, or if vocab_size is below the number of special tokens and characters (unigram and bpe: or too
/// large for the text).
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerTraining& training, const SentenceSource& texts,
                                           TokenizerTrainingReport* report = nullptr);

/// Returns a source that reads a file line by line, with the line ends. Throws Error if the file cannot be
/// read.
SentenceSource lines_of_file(const std::filesystem::path& file);

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
