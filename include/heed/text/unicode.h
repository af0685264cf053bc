// Text as bytes and as characters: UTF-8 validation and repair, character counts and offsets, and the width
// of text in a terminal. A character is a code point throughout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// Where the first byte stands that belongs to no well-formed UTF-8 sequence (overlong forms, surrogates and
/// values past U+10FFFF are not well-formed); nothing when all of `text` is valid.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// `text` with each maximal invalid part replaced by U+FFFD, as the Unicode Standard recommends (section 3.9,
/// "U+FFFD Substitution of Maximal Subparts"). `replaced`, where given, receives how many there were.
std::string replace_invalid_utf8(std::string_view text, std::size_t* replaced = nullptr);

/// Number of characters. A maximal invalid part counts as one, so repair does not change the count.
std::int64_t count_characters(std::string_view text);

/// Whether there is nothing to see: only white space, control, format and unassigned characters, or no
/// character. Invalid bytes count as something.
bool is_blank(std::string_view text);

/// Whether the first character of valid UTF-8 text is a letter, a mark or a digit of a script that puts
/// spaces between words (ideographs are none).
bool is_word_character(std::string_view text);

/// `text` in lower case, by the rules of no particular language.
std::string lower_case(std::string_view text);

/// `text` without the white space (and the separators U+001C to U+001F) at its ends.
std::string_view strip(std::string_view text);

/// Maps byte offsets of a text to character offsets. `text` must be valid UTF-8; it need not outlive the map.
class CharacterOffsets {
 public:
  explicit CharacterOffsets(std::string_view text);
  /// How many characters end at or before `byte`, from 0 to the length of the text. Throws Error past that.
  std::int64_t operator[](std::size_t byte) const;

 private:
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> characters_;  // per byte offset; empty where the text is ASCII
};

/// Columns that `text` takes in a terminal, code point by code point: 2 for East Asian wide and full-width
/// characters, 0 for combining marks, format and control characters, 1 for all others.
int display_width(std::string_view text);

}  // namespace heed
