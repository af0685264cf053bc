// Conversations in every form that people have them in.
#include "data/chat_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

ChatLine read(const char* line) { return read_chat_line(parse_json(line, "f:1"), "f:1"); }

Json messages_of(const char* line) { return read(line).conversation["messages"]; }

TEST(ChatForms, MessagesStayAsTheyAre) {
  const char* line = R"({"messages": [{"role": "user", "content": "a"}], "tools": [], "id": 7})";
  EXPECT_EQ(read(line).form, ChatForm::messages);
  EXPECT_EQ(read(line).conversation, Json::parse(line));
  EXPECT_EQ(messages_of(R"([{"role": "user", "content": "a"}])").size(), 1u);
}

TEST(ChatForms, ShareGpt) {
  const ChatLine line = read(R"({"system": "S", "tools": "[{\"name\": \"f\"}]", "conversations": [
    {"from": "human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
    {"from": "observation", "value": "2"}, {"from": "gpt", "value": "b", "train": false}]})");
  EXPECT_EQ(line.form, ChatForm::sharegpt);
  EXPECT_EQ(line.conversation["messages"], Json::parse(R"([
    {"role": "system", "content": "S"}, {"role": "user", "content": "a"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "tool", "content": "2"}, {"role": "assistant", "content": "b", "train": false}])"));
  EXPECT_EQ(line.conversation["tools"], Json::parse(R"([{"name": "f"}])"));
  EXPECT_EQ(messages_of(R"({"conversations": [{"role": "user", "content": "a"}]})"),
            Json::parse(R"([{"role": "user", "content": "a"}])"));
}

TEST(ChatForms, Alpaca) {
  EXPECT_EQ(messages_of(R"({"instruction": "Add.", "input": "1 2", "output": "3", "history": [["q", "a"]]})"),
            Json::parse(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                            {"role": "user", "content": "Add.\n1 2"}, {"role": "assistant", "content": "3"}])"));
  EXPECT_EQ(messages_of(R"({"instruction": "Hi", "input": "", "output": "Ho"})")[0]["content"], "Hi");
}

TEST(ChatForms, PromptsAreNotLearned) {
  EXPECT_EQ(
      messages_of(R"({"prompt": "a", "completion": "b"})"),
      Json::parse(
          R"([{"role": "user", "content": "a", "train": false}, {"role": "assistant", "content": "b"}])"));
  const Json lists =
      messages_of(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]})");
  ASSERT_EQ(lists.size(), 4u);
  EXPECT_EQ(lists[1]["train"], false);
  EXPECT_FALSE(lists[3].contains("train"));
}

TEST(ChatForms, TextIsNoConversation) { EXPECT_EQ(read(R"({"text": "a"})").form, ChatForm::text); }

TEST(ChatForms, Preferences) {
  const auto preference = [](const char* line) { return read_preference_line(Json::parse(line), "f:1"); };
  const PreferenceLine texts = preference(R"({"prompt": "a", "chosen": "b", "rejected": "c"})");
  EXPECT_FALSE(texts.is_chat());
  EXPECT_EQ(texts.prompt + texts.chosen + texts.rejected, "abc");

  // The common beginning is the prompt; the last messages are answers, even if they are equal.
  const PreferenceLine chats = preference(R"({"tools": "[{\"name\": \"f\"}]",
    "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "d"}]})");
  ASSERT_TRUE(chats.is_chat());
  EXPECT_EQ(chats.chosen_chat, Json::parse(R"({"messages": [{"role": "user", "content": "a", "train": false},
    {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "tools": [{"name": "f"}]})"));
  EXPECT_EQ(chats.rejected_chat["messages"][1], Json::parse(R"({"role": "assistant", "content": "d"})"));
  const PreferenceLine equal =
      preference(R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}],
    "rejected": [{"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(equal.chosen_chat, equal.rejected_chat);
  EXPECT_FALSE(equal.chosen_chat["messages"][1].contains("train"));

  EXPECT_ERROR(preference(R"({"prompt": "a", "chosen": "b"})"), "f:1: rejected: not found");
  EXPECT_ERROR(preference(R"({"prompt": "a", "chosen": "b", "rejected": ""})"),
               "f:1: rejected: expected an answer, got \"\"");
  EXPECT_ERROR(preference(R"({"chosen": [], "rejected": []})"),
               "f:1: chosen: expected at least one message, got an array of 0");
  EXPECT_ERROR(preference("[]"),
               "f:1: expected an object with prompt, chosen and rejected, got an array of 0");
}

TEST(ChatForms, NameWhatIsWrong) {
  EXPECT_ERROR(
      read(R"({"question": "a"})"),
      "f:1: expected messages, conversations (ShareGPT), instruction and output (Alpaca), prompt and "
      "completion, or text, got none of them");
  EXPECT_ERROR(read("5"), "f:1: expected a conversation, got 5");
  EXPECT_ERROR(read(R"({"conversations": [{"from": "narrator", "value": "a"}]})"),
               "f:1: conversations.0.from: expected human, gpt, system, function_call or observation, got "
               "\"narrator\"");
  EXPECT_ERROR(read(R"({"instruction": "a"})"), "f:1: output: ");
  EXPECT_ERROR(read(R"({"text": null})"), "f:1: text: ");
}

}  // namespace
}  // namespace heed
