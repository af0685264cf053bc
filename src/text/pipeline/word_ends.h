// Finds positions at which a text can be split without changing the tokens before it: before a single space
// between two letters or digits. Unicode normalization, grapheme clusters and the pre-tokenizers that split
// words treat the two sides of such a position independently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heed {

inline constexpr char32_t kMetaspace = 0x2581;  // SentencePiece's representation of a space

/// Returns true for ASCII letters and digits, letters of the alphabets from Latin to Arabic, and Hangul
/// syllables.
bool is_plain_letter(char32_t c);

/// Returns the first such position at or after byte `from`, or the text's size if there is none.
std::size_t find_word_end(std::string_view text, std::size_t from);

/// Returns how many bytes of a text to tokenize first to get `count` tokens.
std::size_t first_bytes(std::string_view text, std::int64_t count);

/// Returns the space at `at` with the letters on both sides.
std::string_view letters_around(std::string_view text, std::size_t at);

/// Returns true if a match of `text` could span such a position: it contains a letter or digit followed by a
/// space or U+2581.
bool spans_word_end(std::string_view text);

/// Returns the character that replaces the space in the normalized form of "a b": a space or U+2581 if it is
/// between two letters or digits, otherwise 0.
char32_t space_between(std::string_view normalized);

}  // namespace heed
