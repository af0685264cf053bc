// The classes of characters beyond ASCII, from ICU's categories with the exceptions of the Unicode versions
// in use.
#include "text/unicode/character_class.h"

#include <unicode/uchar.h>

namespace heed {
namespace {

// The Unicode version of the categories that BERT's normalizer and the punctuation test use.
constexpr int kCategoriesVersion = 8;
// The Unicode version of the combining marks.
constexpr int kMarksVersion = 9;

bool in(char32_t c, std::uint32_t mask) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & mask) != 0; }

}  // namespace

std::uint8_t detail::class_beyond_ascii(char32_t c) {
  const std::uint32_t category = category_mask(c);
  if ((category & U_GC_L_MASK) != 0) return kLetter;
  if ((category & U_GC_N_MASK) != 0) return kNumber;
  return (category & U_GC_Z_MASK) != 0 || c == 0x85 ? kSpace : 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && character_class(c) == 0;
  // Two characters have changed their category since that version.
  if (c == 0x166D || c == 0x111C9) return true;
  return in(c, U_GC_P_MASK) && unicode_age(c) <= kCategoriesVersion;
}

bool is_word(char32_t c) {
  if (c < 0x80) return (character_class(c) & (kLetter | kNumber)) != 0 || c == '_';
  const auto code = static_cast<UChar32>(c);
  constexpr std::uint32_t kMask = U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (category_mask(c) & kMask) != 0 || u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

bool is_bert_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0 || c == 0xFFFD || in(c, U_GC_CC_MASK | U_GC_CO_MASK)) return true;
  return in(c, U_GC_CF_MASK) && unicode_age(c) <= kCategoriesVersion;
}

bool is_bert_accent(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734) return true;
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;
  return in(c, U_GC_MN_MASK) && unicode_age(c) <= kCategoriesVersion;
}

bool is_combining_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  return in(c, U_GC_M_MASK) && c != 0x111C9 && unicode_age(c) <= kMarksVersion;
}

char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  const auto lower = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
  return lower == c && c >= 0x1C89 ? newer_lower_case(c) : lower;
}

}  // namespace heed
