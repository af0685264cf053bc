// Tokenizes with unigram SentencePiece models as release 0.2.2 and later do, whichever release is installed.
// Earlier releases rounded sums of scores differently, and so chose differently among segmentations with
// equal scores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/threads.h"
#include "text/sentencepiece_file.h"
#include "text/token_table.h"

namespace heed {

/// Normalizes a text as the model requires: replaces characters by its map, and spaces by U+2581.
class SentencePieceNormalizer {
 public:
  /// The character map of the file must have been checked.
  explicit SentencePieceNormalizer(const SentencePieceFile& file);
  /// Sets `origins` to the source byte in the text of every byte of the result, and of its end.
  std::string operator()(std::string_view text, std::vector<std::uint32_t>& origins) const;
  /// Returns true if no replacement and no symbol reaches across a word end (text/word_ends.h).
  bool preserves_word_ends() const { return keeps_word_ends_; }

 private:
  /// The replacement of the beginning of a text, and the number of bytes it consumes.
  struct Step {
    std::string_view becomes;
    std::size_t bytes;
  };
  Step step(std::string_view text) const;

  std::vector<std::uint32_t> units_;  // a double-array trie of the strings that are replaced
  std::string replacements_;          // each ends with a zero byte
  Trie symbols_;                      // user-defined symbols, which are not changed
  bool dummy_prefix_, extra_whitespaces_, suffix_;
  std::string space_;
  bool keeps_word_ends_ = true;
};

class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(const SentencePieceFile& file);

  /// See SentencePieceModel::encode.
  using PieceVisitor = FunctionRef<void(std::string_view piece, int id, std::size_t begin, std::size_t end)>;
  void encode(std::string_view text, PieceVisitor visit) const;
  /// Returns a word end (text/word_ends.h) at or after byte `from` of `text` such that the pieces of text[0,
  /// end) are the first pieces of `text`, or the text's size if none is known. The best path to such a
  /// position does not depend on the text after it, since no piece reaches across it.
  std::size_t safe_end(std::string_view text, std::size_t from) const;

 private:
  float score(std::uint32_t id, std::size_t bytes) const;

  SentencePieceNormalizer normalize_;
  Trie trie_;
  std::vector<float> scores_;
  std::vector<bool> user_defined_;
  std::int32_t unknown_id_ = -1;
  float unknown_score_ = 0;
  std::vector<std::int32_t> bytes_;  // the byte pieces; empty without byte fallback
  bool cuts_words_ = false;          // no piece reaches across a word end
};

}  // namespace heed
