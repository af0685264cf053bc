#include "heed/chat/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heed {
namespace {

std::string text_of(const ParsedToolCalls& result) {
  std::string text = result.content;
  for (const ToolCall& call : result.calls) text += "|" + call.name + " " + call.arguments;
  return text;
}

/// Content and calls as one text: `content|name arguments|...`, the same of an answer in pieces.
std::string parsed(const std::string& answer, ToolCallFormat format) {
  const std::string text = text_of(parse_tool_calls(answer, format));
  for (const std::size_t piece : {1, 3, 10}) {
    ToolCallStream stream(format);
    std::string given;
    for (std::size_t at = 0; at < answer.size(); at += piece) given += stream.push(answer.substr(at, piece));
    EXPECT_EQ(given + text_of(stream.finish()), text) << "in pieces of " << piece;
  }
  return text;
}

TEST(ToolCalls, ContentIsGivenOutAtOnce) {
  ToolCallStream stream(ToolCallFormat::hermes);
  EXPECT_EQ(stream.push("I look "), "I look");
  EXPECT_EQ(stream.push("it up <"), " it up");
  EXPECT_EQ(stream.push("b> now <tool_"), " <b> now");
  EXPECT_EQ(stream.push("call>{\"name\": \"f\"}"), "");
  EXPECT_EQ(text_of(stream.finish()), "|f {}");
}

TEST(ToolCalls, Hermes) {
  const auto format = ToolCallFormat::hermes;
  EXPECT_EQ(parsed("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, "
                   "\"</tool_call>\"]}}\n</tool_call>",
                   format),
            R"(Let me see.|f {"x":[1,"</tool_call>"]})");
  EXPECT_EQ(parsed("<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": "
                   "\"{\\\"y\\\": 2}\"}",
                   format),
            R"(|f {}|g {"y":2})");
  EXPECT_EQ(parsed("<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"parameters\": "
                   "{\"a\": null}}]</tool_call> done",
                   format),
            R"(done|f {}|g {"a":null})");
  EXPECT_EQ(parsed("a <tool_call>{\"name\": \"f\"}</tool_call> b", format), "a\nb|f {}");
}

TEST(ToolCalls, WhatIsMalformedStaysText) {
  for (const std::string& answer :
       std::vector<std::string>{"plain ",
                                "<tool_call>",
                                "<tool_call>{",
                                "<tool_call>{\"name\": 5}</tool_call>",
                                "<tool_call>{\"name\": \"f\" x</tool_call>",
                                "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
                                "<tool_call>[]</tool_call>",
                                "<tool_call>{\"name\": \"\"}</tool_call>",
                                "<tool_call>{\"name\": \"f\"} more",
                                "[TOOL_CALLS]",
                                "[TOOL_CALLS]f[ARGS]",
                                "[TOOL_CALLS]{}",
                                "<|python_tag|>print(1)",
                                "{\"name\": \"f\"",
                                "{\"temperature\": 5}",
                                "[f(1)]",
                                "[f(x=1)",
                                "f(x=y)",
                                "[f(x=1, x=2)]",
                                "f(x='\\q')",
                                "<｜tool▁calls▁begin｜>",
                                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f",
                                "[f()] and more",
                                "\\",
                                "```tool_code\nf(\n```",
                                "f()",
                                "f(x=" + std::string(100, '[') + std::string(100, ']') + ")"}) {
    for (const auto format : {ToolCallFormat::none, ToolCallFormat::hermes, ToolCallFormat::llama,
                              ToolCallFormat::mistral, ToolCallFormat::deepseek, ToolCallFormat::pythonic}) {
      EXPECT_EQ(parsed(answer, format), answer);
    }
  }
  EXPECT_EQ(parsed("<tool_call>{\"name\": \"f\"}</tool_call> <tool_call>{", ToolCallFormat::hermes),
            "<tool_call>{|f {}");
  EXPECT_EQ(
      parsed("In <tool_call> one says <tool_call>{\"name\": \"f\"}</tool_call>", ToolCallFormat::hermes),
      "In <tool_call> one says|f {}");
}

TEST(ToolCalls, Llama) {
  const auto format = ToolCallFormat::llama;
  EXPECT_EQ(parsed(R"( {"name": "f", "parameters": {"x": "é"}})", format), R"(|f {"x":"é"})");
  EXPECT_EQ(
      parsed(
          R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"a": 1.0}}<|eom_id|>)",
          format),
      R"(|f {}|g {"a":1.0})");
  EXPECT_EQ(parsed(R"(I call <|python_tag|>{"name": "f", "parameters": {}})", format), "I call|f {}");
  EXPECT_EQ(parsed(R"({"name": "f", "parameters": {}} is JSON)", format),
            R"({"name": "f", "parameters": {}} is JSON)");
}

TEST(ToolCalls, Mistral) {
  const auto format = ToolCallFormat::mistral;
  EXPECT_EQ(
      parsed(
          R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abc"}, {"name": "g", "arguments": {}}])",
          format),
      R"(|f {"x":1}|g {})");
  EXPECT_EQ(parsed(R"(Sure.[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]c12[ARGS]{})", format),
            R"(Sure.|f {"x":1}|g {})");
  EXPECT_EQ(parsed(R"([{"name": "f", "arguments": {}}])", format), "|f {}");
}

TEST(ToolCalls, Deepseek) {
  const auto format = ToolCallFormat::deepseek;
  EXPECT_EQ(parsed("Hm<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": "
                   "1}\n```<｜tool▁call▁end｜>\n"
                   "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><"
                   "｜tool▁calls▁end｜>",
                   format),
            R"(Hm|f {"x":1}|g {})");
  EXPECT_EQ(parsed("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": "
                   "1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                   format),
            R"(|f {"x":1})");
}

TEST(ToolCalls, Pythonic) {
  const auto format = ToolCallFormat::pythonic;
  EXPECT_EQ(
      parsed("[get.it(city='S\\u00e3o \"P\"', n=-2.5, ok=True, no=None, l=[1, 'a',], d={'k': (1,)}), g()]",
             format),
      R"(|get.it {"city":"São \"P\"","n":-2.5,"ok":true,"no":null,"l":[1,"a"],"d":{"k":[1]}}|g {})");
  EXPECT_EQ(parsed("I look.\n```tool_code\nf(x=\"a\")\n```", format), R"(I look.|f {"x":"a"})");
  EXPECT_EQ(parsed("<|tool_call_start|>[f(x=1)]<|tool_call_end|>Calling", format), R"(Calling|f {"x":1})");
}

TEST(ToolCalls, FormatsOfTemplates) {
  EXPECT_EQ(tool_call_format("{{ '<tool_call>\\n' }}"), ToolCallFormat::hermes);
  EXPECT_EQ(tool_call_format("{{ \"[TOOL_CALLS] [\" }}"), ToolCallFormat::mistral);
  EXPECT_EQ(tool_call_format("{{ '<｜tool▁calls▁begin｜>' }}"), ToolCallFormat::deepseek);
  EXPECT_EQ(tool_call_format("{{ \"<|python_tag|>\" }}"), ToolCallFormat::llama);
  EXPECT_EQ(tool_call_format("{{ '<|tool_call_start|>[' }}"), ToolCallFormat::pythonic);
  EXPECT_EQ(tool_call_format("{{ messages }}"), ToolCallFormat::none);
}

}  // namespace
}  // namespace heed
