// What a SentencePiece model's file holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

struct SentencePieceFile {
  enum class Kind : std::uint8_t {
    normal = 1,
    unknown,       ///< stands for text that no piece fits
    control,       ///< never made of text, as <s>
    user_defined,  ///< found in a text before it is cut
    unused,        ///< has a number only
    byte,          ///< a byte of text that no piece fits
  };
  struct Piece {
    std::string_view text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  ///< by the file's own numbers
  std::string_view charsmap;  ///< the character map of its normaliser, unchecked; may be empty
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  bool unigram = true;  ///< else another kind of model
  bool byte_fallback = false;
};

/// Reads a model, which must outlive what is returned. Throws Error, starting with `where`, where it is
/// damaged, or holds no piece or one that is empty or not UTF-8.
SentencePieceFile read_sentencepiece_file(std::string_view serialized, const std::string& where);

/// Throws the Error for bytes that are no SentencePiece model.
[[noreturn]] void refuse_sentencepiece_file(std::string_view serialized, const std::string& where);

}  // namespace heed
