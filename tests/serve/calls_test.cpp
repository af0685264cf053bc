// Calls of functions in chats: which are read, which are forced, and what stays text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

TEST(Calls, CallsCanBeForcedInEveryFormat) {
  const Json tools = Json::parse(
      R"([{"type": "function", "function": {"name": "find", "parameters":
          {"type": "object", "properties": {"who": {"enum": ["king", "queen"]}}, "required": ["who"]}}}])");
  for (const char* mark : {"<tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "tool_code", "none"}) {
    Asking server(only(chatting("{# tools " + std::string(mark) + " #}")));
    Json body = {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
                 {"temperature", 0},
                 {"tools", tools},
                 {"tool_choice", "required"}};
    const Json choice = server.post("/v1/chat/completions", body).json["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls") << mark << choice;
    const Json& function = choice["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "find") << mark;
    EXPECT_THAT(Json::parse(function["arguments"].get<std::string>())["who"].get<std::string>(),
                testing::AnyOf("king", "queen"));
    EXPECT_TRUE(choice["message"]["content"].is_null()) << mark;
    body["stream"] = true;
    const std::vector<Json> events = server.post("/v1/chat/completions", body).events();
    EXPECT_EQ(text_of(events), "") << mark;
    EXPECT_EQ(events[events.size() - 2]["choices"][0]["delta"]["tool_calls"][0]["function"], function);
  }
}

TEST(Calls, CallsOfToolsAreTakenOutOfTheAnswer) {
  Asking server(only(chatting("{# tools <tool_call> #}")));
  const Json body = {
      {"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
      {"temperature", 0},
      {"tools",
       {{{"type", "function"},
         {"function",
          {{"name", "find"},
           {"parameters",
            {{"type", "object"},
             {"properties", {{"who", {{"enum", {"king", "queen"}}}}}},
             {"required", {"who"}}}}}}},
        {{"type", "function"},
         {"function",
          {{"name", "ask"}, {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}}}}};
  const auto ask = [&](const Json& more) {
    Json all = body;
    all.update(more);
    return server.post("/v1/chat/completions", all);
  };
  const Json named = {{"tool_choice", {{"type", "function"}, {"function", {{"name", "find"}}}}}};
  const Json choice = ask(named).json["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_THAT(call["id"].get<std::string>(), testing::StartsWith("call_"));
  EXPECT_EQ(call["function"]["name"], "find");
  EXPECT_THAT(Json::parse(call["function"]["arguments"].get<std::string>())["who"].get<std::string>(),
              testing::AnyOf("king", "queen"));
  Json streamed = named;
  streamed["stream"] = true;
  const std::vector<Json> events = ask(streamed).events();
  EXPECT_EQ(text_of(events), "");
  const Json delta = events[events.size() - 2]["choices"][0]["delta"];
  EXPECT_EQ(delta["tool_calls"][0]["function"], call["function"]);
  EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(ask({{"tool_choice", "required"}}).json["choices"][0]["finish_reason"], "tool_calls");
  // Without a call, an answer is text, the same whether tools are known or not.
  const Json none = ask({{"tool_choice", "none"}, {"max_tokens", 20}}).json["choices"][0];
  EXPECT_FALSE(none["message"].contains("tool_calls"));
  EXPECT_EQ(ask({{"max_tokens", 20}}).json["choices"][0]["message"], none["message"]);
  EXPECT_EQ(ask({{"tool_choice", {{"function", {{"name", "lose"}}}}}}).status, 400);
}

// As clients send it after a call of a tool, to a template that adds contents to other texts.
TEST(Calls, ConversationsGoOnAfterCalls) {
  Asking server(only(chatting("{{ messages[1]['content'] + '' }}")));
  const Json call = Json::parse(
      R"({"role": "assistant", "content": null,
          "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]})");
  const Answer answer = server.post("/v1/chat/completions",
                                    {{"messages",
                                      {{{"role", "user"}, {"content", "Where?"}},
                                       call,
                                       {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "Here"}}}},
                                     {"max_tokens", 3}});
  EXPECT_EQ(answer.status, 200) << answer.text;
}

TEST(Calls, ToolsNeedATemplateThatShowsThem) {
  Asking server(only(chatting()));
  Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
               {"max_tokens", 3},
               {"tools", {{{"type", "function"}, {"function", {{"name", "find"}}}}}}};
  for (const Json& choice : {Json("auto"), Json("required"), Json{{"function", {{"name", "find"}}}}}) {
    body["tool_choice"] = choice;
    const Answer answer = server.post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << answer.text;
    EXPECT_EQ(answer.json["error"]["param"], "tools");
    EXPECT_THAT(answer.text, HasSubstr("the chat template of chatting has no place for them"));
  }
  body["tool_choice"] = "none";
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
}

TEST(Calls, AnAnswerOfAGivenFormIsContent) {
  Asking server(only(chatting("{# tools <|python_tag|> #}")));
  const Json parameters = {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
  const std::string call = R"({"name": "find", "parameters": {}})";
  Json body = {
      {"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
      {"temperature", 0},
      {"tools", {{{"type", "function"}, {"function", {{"name", "find"}, {"parameters", parameters}}}}}},
      {"guided_choice", {call}}};
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const Answer answer = server.post("/v1/chat/completions", body);
    if (stream) {
      EXPECT_EQ(text_of(answer.events()), call);
    } else {
      EXPECT_EQ(answer.json["choices"][0]["message"], (Json{{"role", "assistant"}, {"content", call}}));
      EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "stop");
    }
  }
}

TEST(Calls, IdsAreThoseThatTemplatesOfMistralTake) {
  Asking server(only(chatting("{# tools [TOOL_CALLS] #}")));
  const Answer answer = server.post("/v1/chat/completions",
                                    {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
                                     {"tools", {{{"type", "function"}, {"function", {{"name", "find"}}}}}},
                                     {"tool_choice", "required"}});
  EXPECT_THAT(answer.json["choices"][0]["message"]["tool_calls"][0]["id"].get<std::string>(),
              testing::MatchesRegex("[a-zA-Z0-9]{9}"))
      << answer.text;
}

}  // namespace
}  // namespace heed::serve_test
