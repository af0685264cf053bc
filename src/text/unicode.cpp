#include "heed/text/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "heed/error.h"
#include "text/utf8.h"

namespace heed {
namespace {

/// The well-formed sequence, or the maximal invalid part, at the start of a text.
struct Sequence {
  std::size_t bytes;
  bool valid;
};

/// Table 3-7 of the Unicode Standard: the first byte gives the length and the range of the second byte.
Sequence next_sequence(std::string_view text) {
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
std::size_t ascii_run(std::string_view text, std::size_t begin) {
  std::size_t i = begin;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i - begin;
}

UChar32 code_point(std::string_view sequence) {
  const auto byte = [sequence](std::size_t i) {
    return static_cast<UChar32>(static_cast<unsigned char>(sequence[i]));
  };
  switch (sequence.size()) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
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

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t i = ascii_run(text, 0); i < text.size(); i += ascii_run(text, i)) {
    const Sequence sequence = next_sequence(text.substr(i));
    if (!sequence.valid) return i;
    i += sequence.bytes;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text, std::size_t* replaced) {
  std::string result;
  result.reserve(text.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Sequence sequence = next_sequence(text.substr(i));
    result += sequence.valid ? text.substr(i, sequence.bytes) : kReplacementCharacter;
    count += sequence.valid ? 0 : 1;
    i += sequence.bytes;
  }
  if (replaced != nullptr) *replaced = count;
  return result;
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t ascii = ascii_run(text, i);
    count += static_cast<std::int64_t>(ascii);
    i += ascii;
    if (i == text.size()) break;
    i += next_sequence(text.substr(i)).bytes;
    ++count;
  }
  return count;
}

bool is_blank(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Sequence sequence = next_sequence(text.substr(i));
    if (!sequence.valid || u_isgraph(code_point(text.substr(i, sequence.bytes)))) return false;
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
  const UChar32 c = code_point(text.substr(0, next_sequence(text).bytes));
  return (u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0) &&
         !u_hasBinaryProperty(c, UCHAR_IDEOGRAPHIC);
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Sequence sequence = next_sequence(text.substr(i));
    if (!sequence.valid || !is_space(code_point(text.substr(i, sequence.bytes)))) {
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
    const std::size_t bytes = next_sequence(text.substr(i)).bytes;
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
    const Sequence sequence = next_sequence(text.substr(i));
    width += sequence.valid ? columns(code_point(text.substr(i, sequence.bytes))) : 1;
    i += sequence.bytes;
  }
  return width;
}

}  // namespace heed
