// OpenAI's Responses API: the events of each answer, and that it is the answer of the same chat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kRoute = "/v1/responses";

// Each of which has its type as its name, and its place as its number.
std::vector<Json> named_events(const Answer& answer) {
  std::vector<Json> events;
  std::istringstream lines(answer.text);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with("data: ")) continue;
    events.push_back(parse_json(line.substr(6), "event"));
    EXPECT_EQ(events.back()["type"], name);
    EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
  }
  return events;
}

// Without repeated ones.
std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) {
    const std::string type = event["type"].get<std::string>().substr(9);  // "response."
    if (types.empty() || types.back() != type) types.push_back(type);
  }
  return types;
}

// Without ids and times, which differ.
Json comparable(Json response) {
  for (const char* key : {"id", "created_at", "completed_at"}) response.erase(key);
  response["usage"].erase("input_tokens_details");
  for (Json& item : response["output"]) {
    item.erase("id");
    item.erase("call_id");
  }
  return response;
}

Json asked(Json more) {
  Json body = {{"input", "Where is he?"}, {"temperature", 0}, {"max_output_tokens", 12}};
  body.update(more);
  return body;
}

Json chat_of(const Json& messages) {
  return {{"messages", messages}, {"temperature", 0}, {"max_tokens", 12}};
}

TEST(Responses, AreThoseOfTheSameChat) {
  Asking server(only(chatting()));
  const Json chat =
      server.post("/v1/chat/completions", chat_of({{{"role", "user"}, {"content", "Where is he?"}}})).json;
  const Json answer = server.post(kRoute, asked({{"metadata", {{"a", "b"}}}})).json;
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("resp_")) << answer;
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(answer["metadata"], (Json{{"a", "b"}}));
  EXPECT_EQ(answer["store"], false);
  ASSERT_EQ(answer["output"].size(), 1u);
  const Json& item = answer["output"][0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["status"], "incomplete");
  EXPECT_EQ(item["content"][0]["type"], "output_text");
  EXPECT_EQ(item["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["usage"]["output_tokens"], 12);
  EXPECT_EQ(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST(Responses, ItemsBecomeMessages) {
  Asking server(only(chatting("{# tools #}")));
  const Json call = {
      {"id", "c1"}, {"type", "function"}, {"function", {{"name", "find"}, {"arguments", "{}"}}}};
  const Json messages = {{{"role", "system"}, {"content", "Be brief.\n\nBe kind."}},
                         {{"role", "user"}, {"content", "Where?"}},
                         {{"role", "assistant"}, {"content", "I look"}, {"tool_calls", Json::array({call})}},
                         {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "Here"}},
                         {{"role", "user"}, {"content", "And now?"}}};
  const Json input = {
      {{"role", "developer"}, {"content", "Be kind."}},
      {{"type", "message"}, {"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "Where?"}}}}},
      {{"type", "reasoning"}, {"summary", {{{"type", "summary_text"}, {"text", "Hm"}}}}},
      {{"type", "message"},
       {"role", "assistant"},
       {"content", {{{"type", "output_text"}, {"text", "I look"}, {"annotations", Json::array()}}}}},
      {{"type", "function_call"}, {"call_id", "c1"}, {"name", "find"}, {"arguments", "{}"}},
      {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "Here"}},
      {{"role", "user"}, {"content", "And now?"}}};
  const Answer chat = server.post("/v1/chat/completions", chat_of(messages));
  const Answer answer = server.post(kRoute, asked({{"input", input}, {"instructions", "Be brief."}}));
  ASSERT_EQ(answer.status, 200) << answer.text;
  EXPECT_EQ(answer.json["usage"]["input_tokens"], chat.json["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer.json["output"][0]["content"][0]["text"], chat.json["choices"][0]["message"]["content"]);
}

TEST(Responses, TextComesAsEvents) {
  Asking server(only(chatting()));
  const Json whole = server.post(kRoute, asked(Json::object())).json;
  const std::vector<Json> events = named_events(server.post(kRoute, asked({{"stream", true}})));
  EXPECT_THAT(types_of(events), ElementsAre("created", "in_progress", "output_item.added",
                                            "content_part.added", "output_text.delta", "output_text.done",
                                            "content_part.done", "output_item.done", "incomplete"));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], Json::array());
  EXPECT_EQ(events[2]["item"]["content"], Json::array());
  std::string text;
  for (const Json& event : events) {
    if (event["type"] == "response.output_text.delta") text += event["delta"];
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], events[2]["item"]["id"]);
    }
  }
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(events[events.size() - 4]["text"], text);
  EXPECT_EQ(comparable(events.back()["response"]), comparable(whole));
  EXPECT_EQ(events.back()["response"]["id"], events[0]["response"]["id"]);
}

TEST(Responses, CallsAreItems) {
  Asking server(only(chatting("{# tools <tool_call> #}")));
  const Json tool = Json::parse(
      R"({"type": "function", "name": "find", "parameters":
          {"type": "object", "properties": {"who": {"enum": ["king", "queen"]}}, "required": ["who"]}})");
  Json body = asked({{"tools", {tool}}, {"max_output_tokens", nullptr}});
  for (const Json& choice : {Json("required"), Json{{"type", "function"}, {"name", "find"}},
                             Json{{"type", "allowed_tools"},
                                  {"mode", "required"},
                                  {"tools", Json::array({{{"type", "function"}, {"name", "find"}}})}}}) {
    body["tool_choice"] = choice;
    body["stream"] = false;
    const Answer whole = server.post(kRoute, body);
    ASSERT_EQ(whole.status, 200) << whole.text;
    EXPECT_EQ(whole.json["status"], "completed");
    EXPECT_EQ(whole.json["tools"][0], tool);
    ASSERT_EQ(whole.json["output"].size(), 1u) << whole.text;
    const Json& item = whole.json["output"][0];
    EXPECT_EQ(item["type"], "function_call");
    EXPECT_EQ(item["name"], "find");
    EXPECT_THAT(item["call_id"].get<std::string>(), StartsWith("call_"));
    EXPECT_TRUE(Json::parse(item["arguments"].get<std::string>()).contains("who"));
    body["stream"] = true;
    const std::vector<Json> events = named_events(server.post(kRoute, body));
    EXPECT_THAT(types_of(events),
                ElementsAre("created", "in_progress", "output_item.added", "function_call_arguments.delta",
                            "function_call_arguments.done", "output_item.done", "completed"));
    EXPECT_EQ(events[2]["item"]["arguments"], "");
    EXPECT_EQ(events[3]["delta"], item["arguments"]);
    EXPECT_EQ(events[4]["arguments"], item["arguments"]);
    EXPECT_EQ(comparable(events.back()["response"]), comparable(whole.json));
  }
}

TEST(Responses, ReasoningIsAnItemBeforeTheMessage) {
  Asking server(only(chatting("{% if add_generation_prompt %}<think>\n{% endif %}")));
  const serve::ServedModel same = chatting();
  const auto think_end = same.tokenizer().token_to_id("</think>"), letter = same.tokenizer().token_to_id("a");
  ASSERT_TRUE(think_end && letter);
  const std::vector<Json> cut = named_events(server.post(kRoute, asked({{"stream", true}})));
  EXPECT_THAT(types_of(cut), ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                         "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                                         "output_item.done", "incomplete"));
  EXPECT_EQ(cut.back()["response"]["output"].size(), 1u);
  EXPECT_EQ(cut.back()["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], 12);
  // Until chance puts some reasoning before its end, and text after it.
  const Json likely = {{std::to_string(*think_end), 90}, {std::to_string(*letter), 90}};
  Json output;
  for (int seed = 0; output.size() < 2 && seed < 100; ++seed) {
    const Json more = {{"stream", true}, {"temperature", 2}, {"seed", seed}, {"logit_bias", likely}};
    output = named_events(server.post(kRoute, asked(more))).back()["response"]["output"];
  }
  ASSERT_EQ(output.size(), 2u) << output;
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["status"], "completed");
  EXPECT_EQ(output[0]["content"][0]["type"], "reasoning_text");
  EXPECT_EQ(output[1]["type"], "message");
  EXPECT_EQ(output[1]["status"], "incomplete");
}

TEST(Responses, TextHasAGivenForm) {
  Asking server(only(chatting()));
  const Json format = {{"type", "json_schema"},
                       {"name", "place"},
                       {"strict", true},
                       {"schema", {{"enum", {"here", "there"}}}}};
  const Json answer =
      server.post(kRoute, asked({{"text", {{"format", format}}}, {"max_output_tokens", 40}})).json;
  EXPECT_EQ(answer["status"], "completed") << answer;
  EXPECT_THAT(Json::parse(answer["output"][0]["content"][0]["text"].get<std::string>()).get<std::string>(),
              testing::AnyOf("here", "there"));
  EXPECT_EQ(answer["text"]["format"], format);
}

TEST(Responses, WhatIsWrongIsNamed) {
  Asking server(only(chatting()));
  const auto item = [](Json one) { return Json{{"input", Json::array({std::move(one)})}}; };
  const std::vector<std::pair<Json, std::string>> wrong = {
      {{{"input", nullptr}}, "input"},
      {{{"input", 1}}, "input"},
      {{{"input", Json::array()}}, "input"},
      {item({{"type", "item_reference"}, {"id", "x"}}), "input.0.type"},
      {item({{"role", "user"}, {"content", {{{"type", "input_image"}}}}}), "input.0.content.0.type"},
      {item({{"role", "boss"}, {"content", "a"}}), "input.0.role"},
      {item({{"type", "function_call_output"}, {"output", "a"}}), "input.0.call_id"},
      {{{"tools", {{{"type", "web_search"}}}}}, "tools.0.type"},
      {{{"tools", {{{"type", "function"}}}}}, "tools.0.name"},
      {{{"tool_choice", {{"type", "file_search"}}}}, "tool_choice.type"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"text", {{"format", {{"type", "yaml"}}}}}}, "text.format"},
      {{{"previous_response_id", "resp_1"}}, "previous_response_id"},
      {{{"max_tokens", 3}}, "max_tokens"},
      {{{"max_completion_tokens", 3}}, "max_completion_tokens"},
      {{{"conversation", "conv_1"}}, "conversation"},
      {{{"background", true}}, "background"},
      {{{"prompt", {{"id", "p"}}}}, "prompt"},
      {{{"truncation", "auto"}}, "truncation"},
      {{{"include", {"message.output_text.logprobs"}}}, "include"},
      {{{"input", std::string(4000, 'a')}}, "input"}};
  for (const auto& [more, param] : wrong) {
    const Answer answer = server.post(kRoute, asked(more));
    EXPECT_EQ(answer.status, 400) << more << answer.text;
    EXPECT_EQ(answer.json["error"]["param"], param) << answer.text;
    EXPECT_THAT(answer.json["error"]["message"].get<std::string>(), HasSubstr(param)) << answer.text;
  }
  EXPECT_EQ(server.post(kRoute, asked({{"truncation", "disabled"}, {"store", true}})).status, 200);
}

TEST(Responses, WhatFailsIsTheLastEvent) {
  Asking server(only(chatting()), {}, {}, 1e-9);  // seconds for each request
  const std::vector<Json> events = named_events(server.post(kRoute, asked({{"stream", true}})));
  EXPECT_THAT(types_of(events), ElementsAre("created", "in_progress", "failed"));
  EXPECT_EQ(events.back()["response"]["status"], "failed");
  EXPECT_EQ(events.back()["response"]["error"]["code"], "server_error");
  EXPECT_THAT(events.back()["response"]["error"]["message"].get<std::string>(), HasSubstr("longer"));
}

TEST(Responses, AreNotStored) {
  Asking server(only(chatting()));
  for (const char* method : {"GET", "DELETE"}) {
    const Answer answer = server.ask(request_of(method, "/v1/responses/resp_1"));
    EXPECT_EQ(answer.status, 404);
    EXPECT_THAT(answer.json["error"]["message"].get<std::string>(), HasSubstr("not stored"));
  }
  const Json paths = server.get("/openapi.json").json["paths"];
  EXPECT_EQ(paths["/v1/responses/{response_id}"]["delete"]["parameters"][0]["name"], "response_id");
  EXPECT_EQ(Asking(only(shakespeare())).post(kRoute, asked(Json::object())).status, 404);
}

}  // namespace
}  // namespace heed::serve_test
