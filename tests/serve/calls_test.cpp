// Calls of functions in chats: which are read, which are forced, and what stays text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

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

// Names of calls, in order.
std::vector<std::string> called(const Json& choice) {
  std::vector<std::string> names;
  for (const Json& call : choice["message"].value("tool_calls", Json::array()))
    names.push_back(call["function"]["name"]);
  return names;
}

TEST(Calls, ToolsNeedNoPlaceInTheTemplate) {
  Asking server(only(chatting()));
  Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
               {"temperature", 0},
               {"logit_bias", {{"0", -100}, {"1", -100}}},  // no white space
               {"tools", {{{"type", "function"}, {"function", {{"name", "find"}}}}}}};
  const auto ask = [&] { return server.post("/v1/chat/completions", body); };
  const int described = ask().json["usage"]["prompt_tokens"];
  for (const Json& choice : {Json("required"), Json{{"function", {{"name", "find"}}}}}) {
    body["tool_choice"] = choice;
    const Answer answer = ask();
    EXPECT_EQ(called(answer.json["choices"][0]), std::vector<std::string>{"find"}) << answer.text;
    EXPECT_EQ(answer.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{}");
  }
  body["tool_choice"] = "none";
  EXPECT_LT(ask().json["usage"]["prompt_tokens"].get<int>(), described);
}

TEST(Calls, ToolChoiceNamesWhatMayBeCalled) {
  Asking server(only(chatting("{# tools <tool_call> #}")));
  const auto tool = [](const char* name) {
    return Json{{"type", "function"}, {"function", {{"name", name}}}};
  };
  const auto ask = [&](const Json& choice) {
    return server.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                                                {"logit_bias", {{"0", -100}, {"1", -50}}},
                                                {"max_tokens", 90},
                                                {"tools", Json::array({tool("find"), tool("lose")})},
                                                {"tool_choice", choice}});
  };
  const auto allowed = [](const char* mode, const Json& tools) {
    return Json{{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", tools}}}};
  };
  for (const char* name : {"find", "lose"}) {
    EXPECT_EQ(called(ask(allowed("required", Json::array({tool(name)}))).json["choices"][0]),
              std::vector<std::string>{name});
    EXPECT_EQ(called(ask(tool(name)).json["choices"][0]), std::vector<std::string>{name});
  }
  EXPECT_EQ(ask(allowed("auto", Json::array({tool("find")}))).status, 200);
  for (const Json& wrong :
       {allowed("none", Json::array({tool("find")})), allowed("auto", Json::array()),
        allowed("auto", Json::array({tool("other")})), tool("other"), Json{{"type", "allowed_tools"}}}) {
    const Answer answer = ask(wrong);
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_EQ(answer.json["error"]["param"], "tool_choice") << answer.text;
  }
}

// With tokens of the vocabulary, the forms that tests of grammars and of readers have.
TEST(Calls, AreForcedInTheFormOfTheTemplate) {
  const Json tools = Json::parse(
      R"([{"type": "function", "function": {"name": "find", "parameters":
          {"type": "object", "properties": {"who": {"enum": ["king", "queen"]}}, "required": ["who"]}}}])");
  for (const char* marks :
       {"<function= <parameter=", "<tool_call>[", "tool_code", "[func_name1(", "<|tool_call|>",
        "<|/tool|> message['tools']", "<｜tool▁calls▁begin｜> ```json"}) {
    Asking server(only(chatting("{# tools " + std::string(marks) + " #}")));
    const Answer answer =
        server.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
                                             {"temperature", 0},
                                             {"tools", tools},
                                             {"tool_choice", "required"}});
    EXPECT_EQ(called(answer.json["choices"][0]), std::vector<std::string>{"find"}) << marks << answer.text;
    EXPECT_TRUE(answer.json["choices"][0]["message"]["content"].is_null()) << marks;
  }
}

// With marks that are special tokens: greedily, and as a model writes at random, one call and several.
TEST(Calls, AreForcedWithSpecialTokens) {
  const Json tools = Json::parse(
      R"([{"type": "function", "function": {"name": "find", "parameters":
          {"type": "object", "properties": {"who": {"enum": ["king", "queen"]}}, "required": ["who"]}}}])");
  const std::vector<std::string> mistral = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
                                 deepseek = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                             "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
  const std::string arguments = R"x(\{[ \n]*"who":[ \n]*"(king|queen)"[ \n]*\})x";
  const struct {
    const char* marks;
    std::vector<std::string> tokens;
    std::string begin, call, between, end;
  } forms[] = {
      {"[TOOL_CALLS]", mistral, R"(\[TOOL_CALLS\]\[)",
       R"(\{[ \n]*"name":[ \n]*"find",[ \n]*"arguments":[ \n]*)" + arguments + R"([ \n]*\})", ", ", R"(\])"},
      {"[TOOL_CALLS] [ARGS]", mistral, "", R"(\[TOOL_CALLS\]find\[ARGS\])" + arguments, "", ""},
      {"[TOOL_CALLS] [CALL_ID] [ARGS]", mistral, "",
       R"(\[TOOL_CALLS\]find\[CALL_ID\][a-zA-Z0-9]{9}\[ARGS\])" + arguments, "", ""},
      {"<｜tool▁calls▁begin｜>", deepseek, "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>find<｜tool▁sep｜>" + arguments + "<｜tool▁call▁end｜>", "",
       "<｜tool▁calls▁end｜>"},
      {"<｜tool▁calls▁begin｜> ```json", deepseek, "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n" + arguments + "\n```<｜tool▁call▁end｜>",
       "\n", "<｜tool▁calls▁end｜>"}};
  for (const auto& form : forms) {
    Asking server(only(chatting("{# tools " + std::string(form.marks) + " #}", form.tokens)));
    const std::string whole = form.begin + form.call + "(" + form.between + form.call + ")*" + form.end;
    std::size_t ended = 0;
    for (int seed = 0; seed < 9; ++seed) {
      const Json choice =
          server
              .post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
                                             {"temperature", seed == 0 ? 0 : 1.5},
                                             {"seed", seed},
                                             {"max_tokens", 150},
                                             {"logprobs", true},
                                             {"tools", tools},
                                             {"tool_choice", seed % 2 == 0 ? Json("required") : tools[0]},
                                             {"parallel_tool_calls", seed % 3 == 0}})
              .json["choices"][0];
      std::string written;
      for (const Json& token : choice["logprobs"]["content"]) written += token["token"];
      if (choice["finish_reason"] == "length") continue;
      ++ended;
      EXPECT_TRUE(std::regex_match(written, std::regex(whole))) << form.marks << ": " << written;
      const std::vector<std::string> names = called(choice);
      ASSERT_FALSE(names.empty()) << form.marks << ": " << choice;
      EXPECT_TRUE(seed % 3 == 0 || names.size() == 1);
      EXPECT_EQ(names, std::vector<std::string>(names.size(), "find"));
      EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
    }
    EXPECT_GE(ended, 6u) << form.marks;  // the others are several, without an end
  }
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

// The prompt begins the reasoning, which a token of the vocabulary ends.
TEST(Reasoning, IsNoContent) {
  Asking server(only(chatting("{% if add_generation_prompt %}<think>\n{% endif %}")));
  Json body = {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
               {"temperature", 0},
               {"max_tokens", 12}};
  const Json cut = server.post("/v1/chat/completions", body).json;
  EXPECT_EQ(cut["choices"][0]["message"]["content"], "") << cut;
  const std::string thoughts = cut["choices"][0]["message"]["reasoning_content"];
  EXPECT_FALSE(thoughts.empty());
  EXPECT_EQ(cut["usage"]["completion_tokens_details"]["reasoning_tokens"], 12);
  body["reasoning_format"] = "none";
  const Json inline_ = server.post("/v1/chat/completions", body).json["choices"][0]["message"];
  EXPECT_THAT(inline_["content"].get<std::string>(), HasSubstr(thoughts));
  EXPECT_FALSE(inline_.contains("reasoning_content"));
  body.erase("reasoning_format");
  body["stream"] = true;
  std::string streamed;
  for (const Json& event : server.post("/v1/chat/completions", body).events()) {
    EXPECT_EQ(event["choices"][0]["delta"].value("content", ""), "");
    streamed += event["choices"][0]["delta"].value("reasoning_content", "");
  }
  EXPECT_EQ(streamed, thoughts);
  // An answer whose form is given has no reasoning.
  body["stream"] = false;
  body["guided_choice"] = {"yes"};
  EXPECT_EQ(server.post("/v1/chat/completions", body).json["choices"][0]["message"],
            (Json{{"role", "assistant"}, {"content", "yes"}}));
}

TEST(Reasoning, EndsWithItsMark) {
  serve::ServedModel model = chatting("{# </think> #}");
  const auto close = model.tokenizer().token_to_id("</think>");
  const auto open = model.tokenizer().token_to_id("<think>");
  ASSERT_TRUE(close && open);
  Asking server(only(std::move(model)));
  Json body = {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
               {"temperature", 0},
               {"max_tokens", 3},
               {"logit_bias", {{std::to_string(*open), 100}}}};
  const auto ask = [&] { return server.post("/v1/chat/completions", body).json; };
  const Json thinking = ask();
  EXPECT_EQ(thinking["choices"][0]["message"],
            (Json{{"role", "assistant"}, {"content", ""}, {"reasoning_content", "<think><think>"}}));
  EXPECT_EQ(thinking["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
  body["messages"].push_back({{"role", "assistant"}, {"content", "<think>"}});
  body["logit_bias"] = {{std::to_string(*close), 100}};
  body["add_generation_prompt"] = false;
  body["continue_final_message"] = true;
  const Json answered = ask();
  EXPECT_EQ(answered["choices"][0]["message"],
            (Json{{"role", "assistant"}, {"content", "</think></think>"}}));
  EXPECT_EQ(answered["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
}

TEST(Forms, WhatIsNotEnforcedIsTold) {
  Asking server(only(chatting()));
  Json body = {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
               {"guided_json", {{"const", "here"}, {"x-a", 1}}}};
  const Json warned = server.post("/v1/chat/completions", body).json;
  EXPECT_EQ(warned["warnings"], Json::array({"guided_json: #/x-a: \"x-a\" is not enforced"})) << warned;
  body["guided_json"] = {{"type", "boolean"}, {"not", {{"const", true}}}};
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 400);
  body["json_schema_lax"] = true;
  body["stream"] = true;
  EXPECT_EQ(server.post("/v1/chat/completions", body).events().front()["warnings"].size(), 1u);
}

}  // namespace
}  // namespace heed::serve_test
