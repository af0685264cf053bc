// Word ends: places between two plain letters and a space at which a text can be cut without a change of its
// tokens.
#include "text/pipeline/word_ends.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/unicode/character_class.h"

namespace heed {

bool is_plain_letter(char32_t c) {
  if (c < 0x80) return (character_class(c) & (kLetter | kNumber)) != 0;
  return (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xC0 && c <= 0x6FF && character_class(c) == kLetter);
}

std::size_t find_word_end(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(' ', std::max<std::size_t>(from, 1)); at != text.npos;
       at = text.find(' ', at + 1)) {
    if (at + 1 == text.size() || !is_plain_letter(character_before(text, at))) continue;
    std::size_t next = at + 1;
    if (!is_plain_letter(next_character(text, next))) continue;
    // The letter before the space must not be part of a grapheme cluster that began earlier.
    std::size_t letter = at - 1;
    while (!is_utf8_start(text[letter])) --letter;
    const char32_t before = letter == 0 ? U' ' : character_before(text, letter);
    if (before < 0x80 || is_plain_letter(before)) return at;
  }
  return text.size();
}

std::size_t first_bytes(std::string_view text, std::int64_t count) {
  constexpr std::size_t kBytesPerToken = 8, kLeast = 4096;
  return kLeast + std::min(static_cast<std::size_t>(count), text.size()) * kBytesPerToken;
}

std::string_view letters_around(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1, end = at + 1;
  while (!is_utf8_start(text[begin])) --begin;
  next_character(text, end);
  return text.substr(begin, end - begin);
}

bool spans_word_end(std::string_view text) {
  char32_t before = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if ((c == ' ' || c == kMetaspace) && is_plain_letter(before)) return true;
    before = c;
  }
  return false;
}

char32_t space_between(std::string_view normalized) {
  std::size_t end = normalized.size();
  const auto step_back = [&]() -> char32_t {
    if (end == 0) return 0;
    const char32_t c = character_before(normalized, end);
    do --end;
    while (!is_utf8_start(normalized[end]));
    return c;
  };
  char32_t c = step_back();
  if (!is_plain_letter(c)) return 0;
  while (is_plain_letter(c)) c = step_back();
  return (c == ' ' || c == kMetaspace) && is_plain_letter(step_back()) ? c : 0;
}

}  // namespace heed
