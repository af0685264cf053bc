// Unigram SentencePiece models as release 0.2.2 and later cut text, whichever release is installed: before
// it, sums of scores were rounded in another way, and of segmentations with equal scores another one was
// taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/threads.h"
#include "text/sentencepiece_file.h"
#include "text/token_table.h"

namespace heed {

/// Makes of a text what a model's pieces are pieces of: characters are replaced by its map, spaces by U+2581.
class SentencePieceNormalizer {
 public:
  /// The file's character map must have been checked.
  explicit SentencePieceNormalizer(const SentencePieceFile& file);
  /// For every byte of the result, and for its end, `origins` says which byte of the text it comes from.
  std::string operator()(std::string_view text, std::vector<std::uint32_t>& origins) const;
  /// Whether no replacement and no symbol reaches across a word end (text/word_ends.h).
  bool keeps_word_ends() const { return keeps_word_ends_; }

 private:
  /// What becomes of the beginning of a text, and the bytes of it that are used up.
  struct Step {
    std::string_view becomes;
    std::size_t bytes;
  };
  Step step(std::string_view text) const;

  std::vector<std::uint32_t> units_;  // a double array of the strings that are replaced
  std::string replacements_;          // each ended by a zero byte
  Trie symbols_;                      // user-defined ones, which are left as they are
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
  /// A word end (text/word_ends.h) at byte `from` of `text` or behind it, so that the pieces of text[0, end)
  /// are the first pieces of `text`; the text's size where none is known. The best path to that place depends
  /// on nothing behind it, and no piece reaches across it.
  std::size_t safe_end(std::string_view text, std::size_t from) const;

 private:
  float score(std::uint32_t id, std::size_t bytes) const;

  SentencePieceNormalizer normalize_;
  Trie trie_;
  std::vector<float> scores_;
  std::vector<bool> user_defined_;
  std::int32_t unknown_id_ = -1;
  float unknown_score_ = 0;
  std::vector<std::int32_t> bytes_;  // the pieces of single bytes; empty without byte fallback
  bool cuts_words_ = false;          // no piece reaches across a word end
};

}  // namespace heed
