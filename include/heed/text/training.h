// Training of vocabularies from a corpus, saved as a tokenizer.json that Hugging Face's tokenizers and
// transformers open too. heed/text/sentencepiece.h trains SentencePiece models as files of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/text/sentencepiece.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

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
  /// byte_bpe, wordpiece: rarer pairs of tokens are not merged, as in the tokenizers library's own recipes;
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

}  // namespace heed
