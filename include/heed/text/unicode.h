// Text as characters: their counts and offsets, and the width of text in a terminal. A character is a code
// point throughout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/core/utf8.h"
#include "heed/export.h"

namespace HEED_API heed {

/// Returns the number of characters. A maximal invalid part counts as one, so repair does not change the
/// count.
std::int64_t count_characters(std::string_view text);

/// Returns true if nothing is visible: `text` is empty, or has only white space, control, format and
/// unassigned characters. Invalid bytes are visible.
bool is_blank(std::string_view text);

/// Returns true if the first character of valid UTF-8 text is a letter, mark or digit of a script that
/// separates words by spaces (so not an ideograph).
bool is_word_character(std::string_view text);

/// Returns `text` in lower case, by language-independent rules.
std::string lower_case(std::string_view text);

/// Returns `text` without the white space (and the separators U+001C to U+001F) at its ends.
std::string_view strip(std::string_view text);

/// The bytes begin .. end - 1 of a text. Both are at borders of characters.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// Maps byte offsets of a text to character offsets. `text` must be valid UTF-8; it need not outlive the map.
/// Threads: several may use one object at once.
class CharacterOffsets {
 public:
  explicit CharacterOffsets(std::string_view text);
  /// Returns the number of characters that end at or before `byte`. Throws Error if `byte` is past the end of
  /// the text.
  std::int64_t operator[](std::size_t byte) const;

 private:
  std::size_t bytes_ = 0;
  std::vector<std::uint32_t> characters_;  // per byte offset; empty if the text is ASCII
};

/// Returns the number of columns that `text` takes in a terminal. Each code point counts by itself: 2 for
/// East Asian wide and full-width characters, 0 for combining marks, format and control characters, 1 for all
/// others.
int display_width(std::string_view text);

}  // namespace heed
