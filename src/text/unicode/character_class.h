// Character classes as the tokenizers library and the regular expressions of tokenizer files define them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

enum CharacterClass : std::uint8_t { kLetter = 1, kNumber = 2, kSpace = 4 };

namespace detail {
std::uint8_t class_beyond_ascii(char32_t c);

constexpr std::array<std::uint8_t, 128> ascii_classes() {
  std::array<std::uint8_t, 128> classes{};
  for (char32_t c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    classes[c] = static_cast<std::uint8_t>(letter                   ? kLetter
                                           : (c >= '0' && c <= '9') ? kNumber
                                           : space                  ? kSpace
                                                                    : 0);
  }
  return classes;
}
inline constexpr auto kAsciiClasses = ascii_classes();
}  // namespace detail

/// Returns letter (L), number (N), white space or 0 for any other character.
inline std::uint8_t character_class(char32_t c) {
  return c < 128 ? detail::kAsciiClasses[c] : detail::class_beyond_ascii(c);
}

inline bool is_white_space(char32_t c) { return character_class(c) == kSpace; }
inline bool is_number(char32_t c) { return character_class(c) == kNumber; }
/// Returns true for ASCII punctuation and symbols, and for Unicode's punctuation.
bool is_punctuation(char32_t c);
/// Returns true for what \w matches: letters, marks, digits and connectors.
bool is_word(char32_t c);
/// Returns true for what BERT treats as a control character: U+0000, U+FFFD, controls, formats and private
/// use.
bool is_bert_control(char32_t c);
/// Returns true for what BERT treats as an accent.
bool is_bert_accent(char32_t c);
/// Returns true for marks of all kinds.
bool is_combining_mark(char32_t c);
/// Returns the lower-case form of a capital if that is a single character, otherwise `c`.
char32_t lower_case(char32_t c);

// Properties for the Unicode versions that the parts of the tokenizers library use.

/// Returns the general category as a bit, like ICU's U_MASK. Includes characters newer than ICU's tables.
std::uint32_t category_mask(char32_t c);

inline constexpr int kUnassigned = 1000;
/// Returns the Unicode version that introduced a character, or kUnassigned if ICU does not know it.
int unicode_age(char32_t c);

/// Returns the lower-case form of a capital that is newer than ICU's tables, otherwise `c`.
char32_t newer_lower_case(char32_t c);

/// Returns the characters of a category (`L`, `Nd`) that ICU does not know, as ranges of a set.
std::u16string newer_members(std::string_view category);

}  // namespace heed
