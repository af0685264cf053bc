#include "heed/text/unicode.h"

#include <gtest/gtest.h>
#include <unicode/utf8.h>

#include <random>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

// Table 3-11 of the Unicode Standard: U+FFFD for truncated and stray bytes.
TEST(Unicode, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  std::size_t replaced = 0;
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", &replaced),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(replaced, 6u);
  // Table 3-8 and 3-9: overlong forms and surrogates, a U+FFFD for each byte.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF", &replaced), r + r + r + r + r);
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80", &replaced), r + r + r);
  EXPECT_EQ(replace_invalid_utf8("fine \xC3\xA9 \xF0\x9F\x98\x80", &replaced),
            "fine \xC3\xA9 \xF0\x9F\x98\x80");
  EXPECT_EQ(replaced, 0u);
}

TEST(Unicode, FindsTheFirstInvalidByte) {
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("0123456789 plain ASCII \xE2\x82\xAC and more"), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("0123456789\xE2\x82"), 10u);
  EXPECT_EQ(first_invalid_utf8("\xC3\xA9\xFF"), 2u);
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8(std::string_view("a\0\x80", 3)), 2u);
}

// Compares with ICU's decoder on bytes that are often valid and often nearly valid.
TEST(Unicode, AgreesWithIcuOnRandomBytes) {
  std::mt19937 random(3);
  const std::string alphabet = "ab\x80\xBF\xC2\xC3\xE0\xE2\xED\xEF\xF0\xF4\xA0\x9F\x90\x8F\xF5\xC1";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, 'a');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    std::string repaired;
    std::size_t invalid = 0, count = 0;
    std::optional<std::size_t> first;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(text.size()); ++count) {
      const std::int32_t begin = i;
      UChar32 c;
      U8_NEXT(text.data(), i, static_cast<std::int32_t>(text.size()), c);
      if (c < 0) {
        if (!first) first = begin;
        ++invalid;
        repaired += "\xEF\xBF\xBD";
      } else {
        repaired.append(text, static_cast<std::size_t>(begin), static_cast<std::size_t>(i - begin));
      }
    }
    std::size_t replaced = 0;
    ASSERT_EQ(replace_invalid_utf8(text, &replaced), repaired);
    ASSERT_EQ(replaced, invalid);
    ASSERT_EQ(first_invalid_utf8(text), first);
    ASSERT_EQ(count_characters(text), static_cast<std::int64_t>(count));
    ASSERT_EQ(count_characters(repaired), static_cast<std::int64_t>(count));
  }
}

TEST(Unicode, MapsBytesToCharacters) {
  const CharacterOffsets offsets("a\xC3\xA9\xF0\x9F\x98\x80z");
  EXPECT_EQ(offsets[0], 0);
  EXPECT_EQ(offsets[1], 1);
  EXPECT_EQ(offsets[2], 1);
  EXPECT_EQ(offsets[3], 2);
  EXPECT_EQ(offsets[7], 3);
  EXPECT_EQ(offsets[8], 4);
  EXPECT_ERROR(offsets[9], "expected a byte offset from 0 to 8, got 9");
  EXPECT_EQ(CharacterOffsets("plain")[5], 5);
  EXPECT_EQ(CharacterOffsets("")[0], 0);
}

TEST(Unicode, MeasuresTerminalColumns) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("caf\u00e9"), 4);
  EXPECT_EQ(display_width("cafe\u0301"), 4);
  EXPECT_EQ(display_width("\u65e5\u672c\u8a9e"), 6);
  EXPECT_EQ(display_width("\uff21"), 2);              // full-width A
  EXPECT_EQ(display_width("\ud55c"), 2);              // a Hangul syllable,
  EXPECT_EQ(display_width("\u1112\u1161\u11ab"), 2);  // and the same decomposed
  EXPECT_EQ(display_width("\U0001F600"), 2);
  EXPECT_EQ(display_width("a\u200db\n"), 2);
  EXPECT_EQ(display_width("\u202f\u2581"), 2);
  EXPECT_EQ(display_width("\xff"), 1);
}

TEST(Unicode, KnowsWhiteSpace) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\n\u00a0\u202f\u200b\ufeff\x01"));
  EXPECT_FALSE(is_blank("  . "));
  EXPECT_FALSE(is_blank("\xff"));
  EXPECT_EQ(strip("\u202f a b\u00a0\n\x1c"), "a b");
  EXPECT_EQ(strip(" \u3000 "), "");
  EXPECT_EQ(strip(""), "");
}

}  // namespace
}  // namespace heed
