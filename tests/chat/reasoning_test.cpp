#include "heed/chat/reasoning.h"

#include <gtest/gtest.h>

#include <string>

namespace heed {
namespace {

/// Reasoning and content as one text, `reasoning|content`, the same of an answer in pieces.
std::string split(const std::string& answer, bool begun = false, bool whole = false) {
  std::string first;
  for (const std::size_t size : {answer.size() + 1, std::size_t{1}, std::size_t{3}, std::size_t{10}}) {
    ReasoningStream stream(begun, whole);
    std::string reasoning, content;
    const auto add = [&](const ReasoningStream::Piece& piece) {
      EXPECT_TRUE(piece.reasoning.empty() || content.empty()) << "in pieces of " << size;
      reasoning += piece.reasoning;
      content += piece.content;
    };
    for (std::size_t at = 0; at < answer.size(); at += size) add(stream.push(answer.substr(at, size)));
    add(stream.finish());
    if (first.empty()) first = reasoning + "|" + content;
    EXPECT_EQ(reasoning + "|" + content, first) << "in pieces of " << size;
  }
  return first;
}

TEST(Reasoning, ComesBeforeTheContent) {
  EXPECT_EQ(split("<think>\nHm. a < b\n\nSo.\n</think>\n\nYes. </b>\n"), "Hm. a < b\n\nSo.|Yes. </b>\n");
  EXPECT_EQ(split("\n<think></think>Yes"), "|Yes");
  EXPECT_EQ(split("<think>a</think>b</think>c"), "a|b</think>c");
  EXPECT_EQ(split(""), "|");
  EXPECT_EQ(split("  Yes <think>a</think>"), "|  Yes <think>a</think>");
  EXPECT_EQ(split("<thin"), "|<thin");
}

TEST(Reasoning, MayBeginInThePrompt) {
  EXPECT_EQ(split("\nHm.\n</think>\nYes", true), "Hm.|Yes");
  EXPECT_EQ(split("Hm. </thi", true), "Hm. </thi|");
  EXPECT_EQ(split("Hm. ", true), "Hm.|");
  EXPECT_TRUE(begins_reasoning("user: a\nassistant: <think>\n"));
  EXPECT_FALSE(begins_reasoning("user: a\nassistant: <think>\n\n</think>\n\n"));
  EXPECT_FALSE(begins_reasoning("<think> a"));
}

TEST(Reasoning, IsWholeWithItsMarks) {
  EXPECT_EQ(split(" <think>\nHm.\n</think>\n\nYes", false, true), " <think>\nHm.\n</think>|\n\nYes");
  EXPECT_EQ(split("Hm.</think>Yes", true, true), "Hm.</think>|Yes");
  EXPECT_EQ(split("<think> Hm. ", false, true), "<think> Hm. |");
}

TEST(Reasoning, TellsWhetherItGoesOn) {
  ReasoningStream stream(false);
  EXPECT_TRUE(stream.may_think());
  stream.push("<think>a");
  EXPECT_TRUE(stream.may_think() && stream.has_thought());
  stream.push("</think>");
  EXPECT_FALSE(stream.may_think());
  ReasoningStream other(false);
  other.push("a");
  EXPECT_FALSE(other.may_think() || other.has_thought());
}

}  // namespace
}  // namespace heed
