// Stop strings in a text that comes in pieces of any size.
#include "serve/generation/text_job.h"

#include <gtest/gtest.h>

namespace heed::serve_test {
namespace {

// The text that is sent when `text` comes in pieces of `size` bytes.
std::string sent(const std::vector<std::string>& stops, const std::string& text, std::size_t size,
                 bool includes = false) {
  serve::StopText stop(stops, includes);
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += size) all += stop.push(text.substr(at, size));
  const bool stopped = stop.is_stopped();
  all += stop.finish();
  return stopped ? all + "|" : all;
}

TEST(StopText, EndsBeforeTheFirstStopString) {
  for (std::size_t size = 1; size < 12; ++size) {
    EXPECT_EQ(sent({}, "one two three", size), "one two three");
    EXPECT_EQ(sent({"four"}, "one two three", size), "one two three");
    EXPECT_EQ(sent({"two"}, "one two three", size), "one |");
    EXPECT_EQ(sent({"three", "two"}, "one two three", size), "one |");
    EXPECT_EQ(sent({"e t"}, "one two three", size), "on|");
    EXPECT_EQ(sent({"aab"}, "aaaab", size), "aa|");
    EXPECT_EQ(sent({"ee!"}, "one two three", size), "one two three") << "the end looked like one";
    EXPECT_EQ(sent({"one"}, "one two three", size), "|");
    EXPECT_EQ(sent({"two"}, "one two three", size, true), "one two|");
    EXPECT_EQ(sent({"two", "e t"}, "one two three", size, true), "one t|");
    EXPECT_EQ(sent({"four"}, "one two three", size, true), "one two three");
  }
}

TEST(StopText, HoldsBackOnlyWhatMightBeAStopString) {
  serve::StopText stop({"###"});
  EXPECT_EQ(stop.push("text#"), "text");
  EXPECT_EQ(stop.push("#"), "");
  EXPECT_EQ(stop.push("a"), "##a");
  EXPECT_EQ(stop.push("###b"), "");
  EXPECT_TRUE(stop.is_stopped());
  EXPECT_EQ(stop.push("c"), "");
}

}  // namespace
}  // namespace heed::serve_test
