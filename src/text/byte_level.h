// The alphabet of byte-level tokenizers: each byte stands as a visible character (Radford et al., "Language
// Models are Unsupervised Multitask Learners", 2019).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

/// The character that stands for a byte; below U+0144.
extern const std::array<char16_t, 256> kByteCharacters;

/// The byte a character stands for, -1 where it stands for none.
int byte_of_character(char32_t c);

/// Puts the character of `byte` behind `text`.
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
