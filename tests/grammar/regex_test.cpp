// Regular expressions and formats as grammars, against std::regex where it knows the syntax.
#include "grammar/char_automaton.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "heed/grammar/grammar.h"
#include "matching.h"
#include "reference/error.h"

namespace heed {
namespace {

TEST(Regex, MatchesAsStandardLibrary) {
  const std::vector<std::string> patterns = {
      "a",      "ab|c",    "(ab|c)+",     "a*b?c{2}",      "[a-c]{1,3}",     "[^a]b",
      "\\d+",   "\\w-\\W", "(?:a|b)*abb", "a{0}b",         "(a|)b",          "a{2,}",
      "a.c",    "\\[\\]",  "[a\\-c]",     "[a-]",          "x(a(b(c)?)?)?y", "(a*)(b*)",
      "(a*)*b", "\\s",     "a+?b*?",      "((a|b){2}){2}", "[\\d_]+",        "\\x61\\u0062",
      "()",     "(a?){3}", "(a*b*)*c"};
  const std::vector<std::string> letters = {"a", "b", "c", "-", "1", "_", " ", "x", "y", "[", "]"};
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < 1400; ++i) {
    for (const std::string& letter : letters) {
      if (texts.size() < 14'000) texts.push_back(texts[i] + letter);
    }
  }
  for (const char* more : {"abb", "aabb", "babb", "ababa", "xabcy", "xaby", "xacy", "abbabb"})
    texts.emplace_back(more);
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    const std::regex expected(pattern);
    const Grammar grammar = Grammar::regex(pattern);
    for (const std::string& text : texts) {
      if (matches(grammar, text) != std::regex_match(text, expected)) ADD_FAILURE() << '"' << text << '"';
    }
  }
}

}  // namespace
}  // namespace heed
