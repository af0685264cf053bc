// The alphabet of byte-level tokenizers, which represents each byte by a visible character (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

/// The character that represents each byte; all are below U+0144.
extern const std::array<char16_t, 256> kByteCharacters;

/// Returns the byte that a character represents, or -1 if it represents none.
int byte_of_character(char32_t c);

/// Appends the character of `byte` to `text`.
inline void append_byte_character(std::string& text, unsigned char byte) {
  const char16_t c = kByteCharacters[byte];
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

}  // namespace heed
