// Checks that tokens are found as the leftmost and longest ones, in linear time.
#include "text/pipeline/added_tokens.h"

#include <gtest/gtest.h>
#include <time.h>

#include <random>

namespace heed {
namespace {

using AddedList = std::vector<std::pair<std::string, std::int32_t>>;
using Parts = std::vector<std::tuple<std::int32_t, std::size_t, std::size_t>>;

constexpr auto anywhere = [](std::size_t, std::size_t) { return true; };

Parts parts(const std::vector<AddedPart>& found) {
  Parts result;
  for (const AddedPart& part : found) result.emplace_back(part.id, part.begin, part.end);
  return result;
}

/// Tries every token at every position.
Parts found_by_trying(const AddedList& tokens, const std::string& text) {
  Parts found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0;
    std::int32_t id = -1;
    for (const auto& [content, its_id] : tokens) {
      if (content.size() <= longest || text.compare(at, content.size(), content) != 0) continue;
      longest = content.size();
      id = its_id;
    }
    if (longest > 0) found.emplace_back(id, at, at + longest);
    at += longest > 0 ? longest : 1;
  }
  return found;
}

TEST(TokenMatcher, FindsTheLeftmostAndOfTheseTheLongest) {
  std::mt19937 random(5);
  int matches = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto word = [&random](std::size_t longest) {
      std::string text;
      for (std::size_t i = 1 + random() % longest; i > 0; --i) text += static_cast<char>('a' + random() % 2);
      return text;
    };
    std::map<std::string, std::int32_t> tokens;
    for (std::int32_t id = 0; id < 6; ++id) tokens[word(6)] = id;
    const AddedList list(tokens.begin(), tokens.end());
    const std::string text = word(30);
    const Parts expected = found_by_trying(list, text);
    ASSERT_EQ(parts(TokenMatcher(list).find(text, anywhere)), expected) << text;
    matches += static_cast<int>(expected.size());
  }
  EXPECT_GT(matches, 2000);
}

TEST(TokenMatcher, NothingIsFoundWithoutTokens) {
  EXPECT_TRUE(TokenMatcher().find("a", anywhere).empty());
  EXPECT_TRUE(TokenMatcher(AddedList{{"", 1}}).find("a", anywhere).empty());
  EXPECT_EQ(parts(TokenMatcher(AddedList{{"", 1}, {"b", 2}}).find("abb", anywhere)),
            (Parts{{2, 1, 2}, {2, 2, 3}}));
}

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Each position of the text begins a token that only the text's end contradicts; and where a short token
// matches, a long one may still do so.
TEST(TokenMatcher, NeedsLinearTime) {
  constexpr std::size_t kLength = 40000;
  const std::string many(10 * kLength, 'a'), text(kLength, 'a');
  const TokenMatcher none(AddedList{{many, 1}, {many + "b", 2}}), all(AddedList{{many + "b", 1}, {"a", 2}});
  const double begin = seconds();
  EXPECT_TRUE(none.find(text, anywhere).empty());
  EXPECT_EQ(all.find(text, anywhere).size(), kLength);
  EXPECT_LT(seconds() - begin, 0.5);  // some milliseconds; quadratic time takes many seconds
}

// A long token beside many short ones must not be walked through for each of them.
TEST(TokenMatcher, IsMadeInLinearTime) {
  AddedList tokens{{std::string(400000, 'a'), 0}};
  for (std::int32_t id = 1; id < 10000; ++id) tokens.emplace_back("<" + std::to_string(id) + ">", id);
  const double begin = seconds();
  const TokenMatcher matcher(tokens);
  EXPECT_LT(seconds() - begin, 5);
  EXPECT_EQ(parts(matcher.find("a<77>", anywhere)), (Parts{{77, 1, 5}}));
}

}  // namespace
}  // namespace heed
