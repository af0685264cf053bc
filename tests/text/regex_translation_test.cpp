// Checks the translation from Oniguruma's syntax to ICU's, construct by construct, as the manuals define them
// (Oniguruma's doc/RE; ICU's "Regular Expressions").
#include "text/patterns/pattern.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/json_field.h"

namespace heed {
namespace {

TEST(RegexTranslation, WritesWhatDiffersTheWayOfIcu) {
  EXPECT_EQ(regex_for_icu("\\h"), u"[0-9a-fA-F]");  // a hexadecimal digit; in ICU, horizontal white space
  EXPECT_EQ(regex_for_icu("\\H"), u"[^0-9a-fA-F]");
  EXPECT_EQ(regex_for_icu("\\v"), u"\\x0B");  // vertical tab; in ICU, any line end
  EXPECT_EQ(regex_for_icu("\\N"), u"[^\\n]");
  EXPECT_EQ(regex_for_icu("[\\b]"), u"[\\x08]");  // backspace inside a set
  EXPECT_EQ(regex_for_icu("[[:xdigit:]x]"), u"[[0-9a-fA-F]x]");
  EXPECT_EQ(regex_for_icu("[[:^space:]]"), u"[[^\\p{White_Space}]]");
  EXPECT_EQ(regex_for_icu("(?m:.)"), u"(?s:.)");  // a dot that matches line ends
  EXPECT_EQ(regex_for_icu("a{,3}"), u"a{0,3}");
  EXPECT_EQ(regex_for_icu("[]a]"), u"[\\]a]");  // a bracket in first position is a member
  EXPECT_EQ(regex_for_icu("[^]a]"), u"[^\\]a]");
}

TEST(RegexTranslation, LeavesTheRestAsItIs) {
  EXPECT_EQ(regex_for_icu("a+?(?:b|c)*(?=d)(?<!e)\\.\\\\h"), u"a+?(?:b|c)*(?=d)(?<!e)\\.\\\\h");
  EXPECT_EQ(regex_for_icu("(?i:x)"), u"(?i:x)");
  EXPECT_EQ(regex_for_icu("\u00e9\U0001D11E"), u"\u00e9\U0001D11E");
  EXPECT_EQ(regex_for_icu("a{2,3}[{,]"), u"a{2,3}[{,]");
  EXPECT_EQ(regex_for_icu(""), u"");
}

// Returns the matches of a translated expression in a text.
std::vector<std::string> found(const std::string& expression, const std::string& text) {
  const nlohmann::ordered_json nothing;
  const auto pattern = Pattern::regex(expression, JsonField(nothing, "test"), false);
  std::vector<std::string> parts;
  pattern->search()->find(
      text, [&](std::size_t begin, std::size_t end) { parts.push_back(text.substr(begin, end - begin)); });
  return parts;
}

TEST(RegexTranslation, TranslatedExpressionsFindWhatOnigurumaDefines) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(found("\\h+", "xfF09 g"), (Parts{"fF09"}));
  EXPECT_EQ(found("\\p{^L}+", "ab12cd"), (Parts{"12"}));
  EXPECT_EQ(found("\\P{L}+", "ab12cd"), (Parts{"12"}));
  EXPECT_EQ(found("\\bcat\\b", "cat concat cat."), (Parts{"cat", "cat"}));
  EXPECT_EQ(found("[[:punct:]]+", "a!?b$"), (Parts{"!?", "$"}));
  EXPECT_EQ(found("(?m:a.b)", "a\nb"), (Parts{"a\nb"}));
  EXPECT_EQ(found("a.b", "a\nb a-b"), (Parts{"a-b"}));
}

}  // namespace
}  // namespace heed
