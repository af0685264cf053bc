// What a SentencePiece model's file holds, for families that number its pieces in their own way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed {

struct SentencePieceFile {
  struct Piece {
    std::string_view text;
    float score = 0;
    bool control = false;       ///< never made of text, as <s>
    bool user_defined = false;  ///< found in a text before it is cut
  };
  std::vector<Piece> pieces;  ///< by the file's own numbers
  std::string_view charsmap;  ///< the character map of its normaliser, unchecked; may be empty
};

/// Reads a model, which must outlive what is returned. Throws Error, starting with `where`, where it is
/// damaged, or holds no piece or one that is empty or not UTF-8.
SentencePieceFile read_sentencepiece_file(std::string_view serialized, const std::string& where);

/// Throws the Error for bytes that are no SentencePiece model.
[[noreturn]] void refuse_sentencepiece_file(std::string_view serialized, const std::string& where);

}  // namespace heed
