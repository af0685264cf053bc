// Where a text may be cut so that the beginning has the tokens it has within the whole: before a single space
// between two letters or digits. Unicode normalization, grapheme clusters and the pre-tokenizers that cut
// words apart all treat the two sides of such a place on their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heed {

inline constexpr char32_t kMetaspace = 0x2581;  // what SentencePiece writes for a space

/// ASCII letters and digits, letters of the alphabets from Latin to Arabic, and Hangul syllables.
bool is_plain_letter(char32_t c);

/// The first such place at byte `from` or behind it; the text's size where there is none.
std::size_t find_word_end(std::string_view text, std::size_t from);

/// How many bytes to look at first for `count` tokens of a text.
std::size_t first_bytes(std::string_view text, std::int64_t count);

/// The letters on both sides of the space at `at`, with it.
std::string_view letters_around(std::string_view text, std::size_t at);

/// Whether a text could match across such a place: it holds a letter or digit and then a space or U+2581.
bool spans_word_end(std::string_view text);

/// What stands for the space in what a normalizer makes of "a b": a space or U+2581 between two letters or
/// digits; 0 where it is something else.
char32_t space_between(std::string_view normalized);

}  // namespace heed
