// The walk over UTF-8, character by character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "heed/core/utf8.h"

namespace heed {

/// U+FFFD, which replaces invalid characters.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// A well-formed sequence, or a maximal invalid part.
struct Utf8Sequence {
  std::size_t bytes;
  bool valid;
};

/// Returns the sequence at the start of a text that is not empty. By table 3-7 of the Unicode Standard, the
/// first byte gives the length and the range of the second byte.
inline Utf8Sequence first_utf8_sequence(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

/// Returns the length of the ASCII text that starts at `begin`. Reads eight bytes at a time.
inline std::size_t ascii_run(std::string_view text, std::size_t begin) {
  std::size_t i = begin;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i - begin;
}

/// Returns the length in bytes of the character that begins with `first`, in valid UTF-8.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool is_utf8_start(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// Returns the character at `at` of valid UTF-8 and advances `at` past it.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&text](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t first = byte(at);
  if (first < 0x80) {
    ++at;
    return first;
  }
  if (first < 0xE0) {
    at += 2;
    return (first & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  }
  if (first < 0xF0) {
    at += 3;
    return (first & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  }
  at += 4;
  return (first & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 |
         (byte(at - 1) & 0x3F);
}

/// Returns the character of valid UTF-8 that ends before `end`.
inline char32_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && !is_utf8_start(text[at])) --at;
  return next_character(text, at);
}

inline void append_utf8(std::string& text, char32_t c) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace heed
