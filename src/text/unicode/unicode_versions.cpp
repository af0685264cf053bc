// Character properties in the Unicode versions that the parts of the tokenizers library use. Each part has
// its own tables, from version 8 to version 17 of the standard, while the installed ICU has a single version.
// Characters that ICU does not know yet are in tables here; characters that a part does not know yet are
// excluded by their age.
#include "text/unicode/character_class.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>

namespace heed {
namespace {

struct Range {
  char32_t first;
  char32_t last;
  UCharCategory category;
};

/// Characters of Unicode 15.1 and 16.
constexpr Range kNewer[] = {{0x897, 0x897, U_NON_SPACING_MARK},
                            {0x1B4E, 0x1B4F, U_OTHER_PUNCTUATION},
                            {0x1B7F, 0x1B7F, U_OTHER_PUNCTUATION},
                            {0x1C89, 0x1C89, U_UPPERCASE_LETTER},
                            {0x1C8A, 0x1C8A, U_LOWERCASE_LETTER},
                            {0x2427, 0x2429, U_OTHER_SYMBOL},
                            {0x2FFC, 0x2FFF, U_OTHER_SYMBOL},
                            {0x31E4, 0x31E5, U_OTHER_SYMBOL},
                            {0x31EF, 0x31EF, U_OTHER_SYMBOL},
                            {0xA7CB, 0xA7CC, U_UPPERCASE_LETTER},
                            {0xA7CD, 0xA7CD, U_LOWERCASE_LETTER},
                            {0xA7DA, 0xA7DA, U_UPPERCASE_LETTER},
                            {0xA7DB, 0xA7DB, U_LOWERCASE_LETTER},
                            {0xA7DC, 0xA7DC, U_UPPERCASE_LETTER},
                            {0x105C0, 0x105F3, U_OTHER_LETTER},
                            {0x10D40, 0x10D49, U_DECIMAL_DIGIT_NUMBER},
                            {0x10D4A, 0x10D4D, U_OTHER_LETTER},
                            {0x10D4E, 0x10D4E, U_MODIFIER_LETTER},
                            {0x10D4F, 0x10D4F, U_OTHER_LETTER},
                            {0x10D50, 0x10D65, U_UPPERCASE_LETTER},
                            {0x10D69, 0x10D6D, U_NON_SPACING_MARK},
                            {0x10D6E, 0x10D6E, U_DASH_PUNCTUATION},
                            {0x10D6F, 0x10D6F, U_MODIFIER_LETTER},
                            {0x10D70, 0x10D85, U_LOWERCASE_LETTER},
                            {0x10D8E, 0x10D8F, U_MATH_SYMBOL},
                            {0x10EC2, 0x10EC4, U_OTHER_LETTER},
                            {0x10EFC, 0x10EFC, U_NON_SPACING_MARK},
                            {0x11380, 0x11389, U_OTHER_LETTER},
                            {0x1138B, 0x1138B, U_OTHER_LETTER},
                            {0x1138E, 0x1138E, U_OTHER_LETTER},
                            {0x11390, 0x113B5, U_OTHER_LETTER},
                            {0x113B7, 0x113B7, U_OTHER_LETTER},
                            {0x113B8, 0x113BA, U_COMBINING_SPACING_MARK},
                            {0x113BB, 0x113C0, U_NON_SPACING_MARK},
                            {0x113C2, 0x113C2, U_COMBINING_SPACING_MARK},
                            {0x113C5, 0x113C5, U_COMBINING_SPACING_MARK},
                            {0x113C7, 0x113CA, U_COMBINING_SPACING_MARK},
                            {0x113CC, 0x113CD, U_COMBINING_SPACING_MARK},
                            {0x113CE, 0x113CE, U_NON_SPACING_MARK},
                            {0x113CF, 0x113CF, U_COMBINING_SPACING_MARK},
                            {0x113D0, 0x113D0, U_NON_SPACING_MARK},
                            {0x113D1, 0x113D1, U_OTHER_LETTER},
                            {0x113D2, 0x113D2, U_NON_SPACING_MARK},
                            {0x113D3, 0x113D3, U_OTHER_LETTER},
                            {0x113D4, 0x113D5, U_OTHER_PUNCTUATION},
                            {0x113D7, 0x113D8, U_OTHER_PUNCTUATION},
                            {0x113E1, 0x113E2, U_NON_SPACING_MARK},
                            {0x116D0, 0x116E3, U_DECIMAL_DIGIT_NUMBER},
                            {0x11BC0, 0x11BE0, U_OTHER_LETTER},
                            {0x11BE1, 0x11BE1, U_OTHER_PUNCTUATION},
                            {0x11BF0, 0x11BF9, U_DECIMAL_DIGIT_NUMBER},
                            {0x11F5A, 0x11F5A, U_NON_SPACING_MARK},
                            {0x13460, 0x143FA, U_OTHER_LETTER},
                            {0x16100, 0x1611D, U_OTHER_LETTER},
                            {0x1611E, 0x16129, U_NON_SPACING_MARK},
                            {0x1612A, 0x1612C, U_COMBINING_SPACING_MARK},
                            {0x1612D, 0x1612F, U_NON_SPACING_MARK},
                            {0x16130, 0x16139, U_DECIMAL_DIGIT_NUMBER},
                            {0x16D40, 0x16D42, U_MODIFIER_LETTER},
                            {0x16D43, 0x16D6A, U_OTHER_LETTER},
                            {0x16D6B, 0x16D6C, U_MODIFIER_LETTER},
                            {0x16D6D, 0x16D6F, U_OTHER_PUNCTUATION},
                            {0x16D70, 0x16D79, U_DECIMAL_DIGIT_NUMBER},
                            {0x18CFF, 0x18CFF, U_OTHER_LETTER},
                            {0x1CC00, 0x1CCEF, U_OTHER_SYMBOL},
                            {0x1CCF0, 0x1CCF9, U_DECIMAL_DIGIT_NUMBER},
                            {0x1CD00, 0x1CEB3, U_OTHER_SYMBOL},
                            {0x1E5D0, 0x1E5ED, U_OTHER_LETTER},
                            {0x1E5EE, 0x1E5EF, U_NON_SPACING_MARK},
                            {0x1E5F0, 0x1E5F0, U_OTHER_LETTER},
                            {0x1E5F1, 0x1E5FA, U_DECIMAL_DIGIT_NUMBER},
                            {0x1E5FF, 0x1E5FF, U_OTHER_PUNCTUATION},
                            {0x1F8B2, 0x1F8BB, U_OTHER_SYMBOL},
                            {0x1F8C0, 0x1F8C1, U_OTHER_SYMBOL},
                            {0x1FA89, 0x1FA89, U_OTHER_SYMBOL},
                            {0x1FA8F, 0x1FA8F, U_OTHER_SYMBOL},
                            {0x1FABE, 0x1FABE, U_OTHER_SYMBOL},
                            {0x1FAC6, 0x1FAC6, U_OTHER_SYMBOL},
                            {0x1FADC, 0x1FADC, U_OTHER_SYMBOL},
                            {0x1FADF, 0x1FADF, U_OTHER_SYMBOL},
                            {0x1FAE9, 0x1FAE9, U_OTHER_SYMBOL},
                            {0x1FBCB, 0x1FBEF, U_OTHER_SYMBOL},
                            {0x2EBF0, 0x2EE5D, U_OTHER_LETTER}};

const Range* newer(char32_t c) {
  const auto place =
      std::lower_bound(std::begin(kNewer), std::end(kNewer), c,
                       [](const Range& range, char32_t wanted) { return range.last < wanted; });
  return place != std::end(kNewer) && place->first <= c ? place : nullptr;
}

struct CasePair {
  char32_t first;
  char32_t last;
  char32_t lower;  // of `first`; the others follow in order
};

/// Capitals of Unicode 16 and 17.
constexpr CasePair kNewerCapitals[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},
                                       {0xA7CC, 0xA7CC, 0xA7CD},    {0xA7CE, 0xA7CE, 0xA7CF},
                                       {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},
                                       {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},
                                       {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

/// The two-letter names of the general categories, in the order of ICU's numbers.
constexpr std::array<const char*, 30> kCategoryNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp",
    "Cc", "Cf", "Co", "Cs", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"};

}  // namespace

std::uint32_t category_mask(char32_t c) {
  const auto category = u_charType(static_cast<UChar32>(c));
  if (category != U_UNASSIGNED) return U_MASK(category);
  const Range* range = newer(c);
  return U_MASK(range == nullptr ? U_UNASSIGNED : range->category);
}

int unicode_age(char32_t c) {
  UVersionInfo version;
  u_charAge(static_cast<UChar32>(c), version);
  return version[0] == 0 ? kUnassigned : version[0];
}

char32_t newer_lower_case(char32_t c) {
  for (const CasePair& pair : kNewerCapitals) {
    if (c >= pair.first && c <= pair.last) return pair.lower + (c - pair.first);
  }
  return c;
}

std::u16string newer_members(std::string_view category) {
  std::u16string set;
  const auto add = [&set](char32_t c) {
    if (c < 0x10000) {
      set += static_cast<char16_t>(c);
    } else {
      set += U16_LEAD(c);
      set += U16_TRAIL(c);
    }
  };
  for (const Range& range : kNewer) {
    if (u_charType(static_cast<UChar32>(range.first)) != U_UNASSIGNED) continue;
    if (std::string_view(kCategoryNames[range.category]).substr(0, category.size()) != category) continue;
    add(range.first);
    if (range.last == range.first) continue;
    set += u'-';
    add(range.last);
  }
  return set;
}

}  // namespace heed
