// What kind of character a code point is, as the tokenizers library and the regular expressions of tokenizer
// files see it.
#pragma once

#include <array>
#include <cstdint>

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

/// Letter (L), number (N), white space or none of these (0).
inline std::uint8_t character_class(char32_t c) {
  return c < 128 ? detail::kAsciiClasses[c] : detail::class_beyond_ascii(c);
}

inline bool is_white_space(char32_t c) { return character_class(c) == kSpace; }
inline bool is_number(char32_t c) { return character_class(c) == kNumber; }
/// ASCII punctuation and symbols, and Unicode's punctuation.
bool is_punctuation(char32_t c);
/// What \w stands for: letters, marks, digits and connectors.
bool is_word(char32_t c);
/// What BERT takes for a control character: U+0000, U+FFFD, controls, formats and private use.
bool is_bert_control(char32_t c);
/// What BERT takes for an accent.
bool is_bert_accent(char32_t c);
/// Marks of all kinds.
bool is_combining_mark(char32_t c);
/// The small letter of a capital that has one of one character, others as they are.
char32_t lower_case(char32_t c);

}  // namespace heed
