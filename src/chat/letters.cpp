// Properties and cases of characters, from ICU.
#include "chat/letters.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

UChar32 icu_character(char32_t c) { return static_cast<UChar32>(c); }

icu::UnicodeString icu_text(std::string_view text) {
  return icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())});
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

/// One character in title case, which may be several.
std::string title_of(char32_t c) {
  icu::UnicodeString text(icu_character(c));
  text.toTitle(nullptr, icu::Locale::getRoot());
  std::string result;
  text.toUTF8String(result);
  return result;
}

}  // namespace

bool is_space(char32_t c) { return u_isUWhiteSpace(icu_character(c)) || (c >= 0x1C && c <= 0x1F); }
bool is_alphabetic(char32_t c) { return (U_GET_GC_MASK(icu_character(c)) & U_GC_L_MASK) != 0; }
bool is_decimal(char32_t c) { return u_charType(icu_character(c)) == U_DECIMAL_DIGIT_NUMBER; }

bool is_digit(char32_t c) {
  const int type = u_getIntPropertyValue(icu_character(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool is_numeric(char32_t c) {
  return u_getIntPropertyValue(icu_character(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_upper(char32_t c) { return u_isUUppercase(icu_character(c)); }
bool is_lower(char32_t c) { return u_isULowercase(icu_character(c)); }
bool is_title(char32_t c) { return u_charType(icu_character(c)) == U_TITLECASE_LETTER; }

bool is_printable(char32_t c) {
  constexpr std::uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;  // control, format, unassigned, separators
  return c == ' ' || (U_GET_GC_MASK(icu_character(c)) & kHidden) == 0;
}

std::string upper_case(std::string_view text) {
  std::string result;
  icu_text(text).toUpper(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  std::size_t at = 0;
  const char32_t first = next_character(text, at);
  return title_of(first) + lower_case(text).substr(lower_case(text.substr(0, at)).size());
}

std::string title_case(std::string_view text) {
  std::string result;
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    result += after_letter ? lower_case(text.substr(begin, at - begin)) : title_of(c);
    after_letter = is_cased(c);
  }
  return result;
}

std::string swapped_case(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    result += is_upper(c) ? lower_case(character) : upper_case(character);
  }
  return result;
}

}  // namespace heed::chat
