// Counts, offsets and terminal widths of characters, and case and white space by Unicode's properties.
#include "heed/text/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <limits>

#include "core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

UChar32 code_point(std::string_view text, std::size_t at) {
  return static_cast<UChar32>(next_character(text, at));
}

bool is_space(UChar32 c) { return u_isUWhiteSpace(c) || (c >= 0x1C && c <= 0x1F); }

int columns(UChar32 c) {
  switch (u_charType(c)) {
    case U_NON_SPACING_MARK:
    case U_ENCLOSING_MARK:
    case U_CONTROL_CHAR:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR: return 0;
    case U_FORMAT_CHAR: return c == 0x00AD ? 1 : 0;  // terminals show the soft hyphen
    default: break;
  }
  // In decomposed Hangul, vowels and final consonants are drawn into the two cells of the syllable's first
  // consonant.
  const int hangul = u_getIntPropertyValue(c, UCHAR_HANGUL_SYLLABLE_TYPE);
  if (hangul == U_HST_VOWEL_JAMO || hangul == U_HST_TRAILING_JAMO) return 0;
  const int width = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

}  // namespace

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t ascii = ascii_run(text, i);
    count += static_cast<std::int64_t>(ascii);
    i += ascii;
    if (i == text.size()) break;
    i += first_utf8_sequence(text.substr(i)).bytes;
    ++count;
  }
  return count;
}

bool is_blank(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = first_utf8_sequence(text.substr(i));
    if (!sequence.valid || u_isgraph(code_point(text, i))) return false;
    i += sequence.bytes;
  }
  return true;
}

std::string lower_case(std::string_view text) {
  icu::UnicodeString lower =
      icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())});
  std::string result;
  lower.toLower(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

bool is_word_character(std::string_view text) {
  if (text.empty()) return false;
  const UChar32 c = code_point(text, 0);
  return (u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0) &&
         !u_hasBinaryProperty(c, UCHAR_IDEOGRAPHIC);
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = first_utf8_sequence(text.substr(i));
    if (!sequence.valid || !is_space(code_point(text, i))) {
      begin = std::min(begin, i);
      end = i + sequence.bytes;
    }
    i += sequence.bytes;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

CharacterOffsets::CharacterOffsets(std::string_view text) : bytes_(text.size()) {
  if (ascii_run(text, 0) == text.size()) return;
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw Error("text: expected less than 4 GiB, got " + std::to_string(text.size()) + " bytes (split it)");
  }
  characters_.resize(text.size() + 1);
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) {
    const std::size_t bytes = first_utf8_sequence(text.substr(i)).bytes;
    for (std::size_t k = 0; k < bytes; ++k) characters_[i + k] = count;
    i += bytes;
  }
  characters_[text.size()] = count;
}

std::int64_t CharacterOffsets::operator[](std::size_t byte) const {
  if (byte > bytes_) {
    throw Error("character offset: expected a byte offset from 0 to " + std::to_string(bytes_) + ", got " +
                std::to_string(byte));
  }
  return characters_.empty() ? static_cast<std::int64_t>(byte) : characters_[byte];
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = first_utf8_sequence(text.substr(i));
    width += sequence.valid ? columns(code_point(text, i)) : 1;
    i += sequence.bytes;
  }
  return width;
}

}  // namespace heed
