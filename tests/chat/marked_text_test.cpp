#include "chat/marked_text.h"

#include <gtest/gtest.h>

#include "chat/letters.h"

namespace heed::chat {
namespace {

using Spans = std::vector<TextSpan>;

MarkedText data(std::string bytes) {
  MarkedText text(std::move(bytes));
  text.mark(Mark::data);
  return text;
}

TEST(MarkedText, KeepsMarksThroughJoiningAndCutting) {
  MarkedText text("<");
  text.append(data("abc"));
  text.append(data("de"));
  text.append("|");
  text.append(data("f"));
  EXPECT_EQ(text.bytes(), "<abcde|f");
  EXPECT_EQ(text.spans(Mark::data), (Spans{{1, 6}, {7, 8}}));
  EXPECT_EQ(text.spans(Mark::generated), Spans{});
  EXPECT_EQ(text.part(0, 1).spans(Mark::data), Spans{});
  EXPECT_EQ(text.part(5, 8).spans(Mark::data), (Spans{{0, 1}, {2, 3}}));
  EXPECT_EQ(text.part(6, 7).spans(Mark::data), Spans{});
  EXPECT_EQ(text.part(3, 3).spans(Mark::data), Spans{});
  EXPECT_EQ(text.derived("XYZ").spans(Mark::data), (Spans{{0, 3}}));
  EXPECT_EQ(MarkedText("a").derived("b").spans(Mark::data), Spans{});
}

TEST(MarkedText, CountsCharacters) {
  EXPECT_EQ(character_start("aü你b", 2), 3u);
  EXPECT_EQ(character_start("aü你b", 9), 7u);
  EXPECT_EQ(characters_of("aü你"), (std::vector<std::string_view>{"a", "ü", "你"}));
}

TEST(Letters, ChangeCase) {
  EXPECT_EQ(upper_case("straße ﬁ"), "STRASSE FI");
  EXPECT_EQ(capitalized("éCOLE ΑΣ"), "École ας");
  EXPECT_EQ(title_case("they're ǆ"), "They'Re ǅ");
  EXPECT_EQ(swapped_case("aBß"), "AbSS");
}

}  // namespace
}  // namespace heed::chat
