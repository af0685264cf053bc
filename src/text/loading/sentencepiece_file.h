// The content of a SentencePiece model file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {

struct SentencePieceFile {
  enum class Kind : std::uint8_t {
    normal = 1,
    unknown,       ///< represents text that no piece matches
    control,       ///< never produced from text, such as <s>
    user_defined,  ///< matched in a text before it is split
    unused,        ///< occupies an id only
    byte,          ///< one byte of text that no piece matches
  };
  struct Piece {
    std::string_view text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  ///< by the ids of the file
  std::string_view charsmap;  ///< the normalizer's character map, unchecked; may be empty
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  bool unigram = true;  ///< false: another kind of model
  bool byte_fallback = false;
};

/// Parses a model, which must outlive the result. Throws Error, starting with `where`, if it is damaged, has
/// no pieces, or has a piece that is empty or not UTF-8.
SentencePieceFile read_sentencepiece_file(std::string_view serialized, const std::string& where);

/// Returns the pairs of pieces that make a third one, for byte pair encoding: pieces from `first` on come in
/// the order in which they were merged. Throws Error, starting with `where`, if a piece is longer than any
/// real one.
std::vector<std::pair<std::string_view, std::string_view>> piece_merges(const SentencePieceFile& file,
                                                                        std::size_t first,
                                                                        const std::string& where);

/// Returns true if the bytes are fields of a protocol buffer. Throws Error naming `where` if one of the
/// model's character maps would lead SentencePiece's library astray (Charsmap::is_safe).
bool check_character_maps(std::string_view serialized, const std::string& where);

/// Throws the Error for bytes that are not a SentencePiece model.
[[noreturn]] void refuse_sentencepiece_file(std::string_view serialized, const std::string& where);

}  // namespace heed
