#include "heed/chat/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace heed {
namespace {

std::string text_of(const ParsedToolCalls& result) {
  std::string text = result.content;
  for (const ToolCall& call : result.calls) text += "|" + call.name + " " + call.arguments;
  return text;
}

constexpr ToolCallFormat kFormats[] = {
    ToolCallFormat::none,    ToolCallFormat::hermes,   ToolCallFormat::qwen_coder, ToolCallFormat::llama,
    ToolCallFormat::mistral, ToolCallFormat::deepseek, ToolCallFormat::pythonic,   ToolCallFormat::granite};

constexpr const char* kTools = R"([{"function": {"name": "f", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}, "n": {"type": "integer"}, "many": {"type": "array"},
    "some": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "ok": {"type": "boolean"}}}}},
    {"function": {"name": "g"}}, {"function": {"name": "get.it"}}, {"function": {"name": "brave_search"}}])";

/// Content and calls as one text: `content|name arguments|...`, the same of an answer in pieces.
std::string parsed(const std::string& answer, ToolCallFormat format) {
  const std::string text = text_of(parse_tool_calls(answer, format, kTools));
  for (const std::size_t piece : {1, 3, 10}) {
    ToolCallStream stream(format, kTools);
    std::string given;
    for (std::size_t at = 0; at < answer.size(); at += piece) given += stream.push(answer.substr(at, piece));
    EXPECT_EQ(given + text_of(stream.finish()), text) << "in pieces of " << piece;
  }
  return text;
}

TEST(ToolCalls, ContentIsGivenOutAtOnce) {
  ToolCallStream stream(ToolCallFormat::hermes, kTools);
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
                                "<tool_call>{\"name\": \"h\", \"arguments\": {}}</tool_call>",
                                "<tool_call>{\"name\": \"f\", \"city\": \"Rome\"}</tool_call>",
                                "{\"name\": \"f\", \"age\": 3}",
                                "{\"name\": \"h\", \"parameters\": {}}",
                                "[TOOL_CALLS]h[ARGS]{}",
                                "<|python_tag|>h.call()",
                                "<function=h>{}</function>",
                                "<function=f>{}",
                                "<tool_call><function=f><parameter=text>a</parameter>",
                                "<tool_call><function=f><parameter=text>a</function></tool_call>",
                                "<|tool_call|>[{\"name\": \"h\"}]",
                                "functools[1]",
                                "```tool_code\nprint(h())\n```",
                                "print(print(f()))",
                                "`<tool_call>{\"name\": \"f\"}</tool_call>` calls",
                                "So:\n```xml\n<tool_call>{\"name\": \"f\"}</tool_call>\n```\ncalls",
                                "``a ` [TOOL_CALLS][{\"name\": \"f\"}]``",
                                "`<|tool_call|>[{\"name\": \"f\"}]`",
                                "`<function=f>{}</function>`",
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
    for (const auto format : kFormats) {
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

TEST(ToolCalls, LlamaWritesTagsAndBuiltinsToo) {
  const auto format = ToolCallFormat::llama;
  EXPECT_EQ(parsed("<function=f>{\"text\": \"Rome\"}</function>", format), R"(|f {"text":"Rome"})");
  EXPECT_EQ(parsed("I look.<function=f>{}</function>\n<function=g>{}</function><|eom_id|>", format),
            "I look.|f {}|g {}");
  EXPECT_EQ(parsed("<|python_tag|>brave_search.call(query=\"Rome weather\")<|eom_id|>", format),
            R"(|brave_search {"query":"Rome weather"})");
  EXPECT_EQ(parsed("<|python_tag|>get.it(x=1)", format), R"(|get.it {"x":1})");
}

TEST(ToolCalls, QwenCoder) {
  const auto format = ToolCallFormat::qwen_coder;
  EXPECT_EQ(parsed("I look.\n<tool_call>\n<function=f>\n<parameter=text>\nRome\n</parameter>\n"
                   "<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>",
                   format),
            R"(I look.|f {"text":"Rome","n":5})");
  EXPECT_EQ(parsed("<function=g>\n</function>", format), "|g {}");
  EXPECT_EQ(parsed("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", format), "|f {}");
  EXPECT_EQ(
      parsed("<tool_call><function=f></function></tool_call><tool_call><function=g></function></tool_call>",
             format),
      "|f {}|g {}");
  // Texts stay as they are, though they look like JSON or like the end of a parameter.
  const auto value = [&](const std::string& key, const std::string& text) {
    return parsed(
        "<tool_call><function=f><parameter=" + key + ">" + text + "</parameter></function></tool_call>",
        format);
  };
  EXPECT_EQ(value("text", "5"), R"(|f {"text":"5"})");
  EXPECT_EQ(value("text", "\n\n a </parameter> b\n"), R"(|f {"text":"\n a </parameter> b"})");
  EXPECT_EQ(value("n", " 7 "), R"(|f {"n":7})");
  EXPECT_EQ(value("n", "seven"), R"(|f {"n":"seven"})");
  EXPECT_EQ(value("many", "[1, \"a\"]"), R"(|f {"many":[1,"a"]})");
  EXPECT_EQ(value("ok", "True"), R"(|f {"ok":true})");
  EXPECT_EQ(value("some", "None"), R"(|f {"some":null})");
  EXPECT_EQ(value("some", "5"), R"(|f {"some":"5"})");
  EXPECT_EQ(value("other", "{\"a\": 1}"), R"(|f {"other":{"a":1}})");
  EXPECT_EQ(value("other", "a \"b\""), R"(|f {"other":"a \"b\""})");
  EXPECT_EQ(value("other", "\"b\""), R"(|f {"other":"\"b\""})");
}

TEST(ToolCalls, GraniteAndPhi) {
  const auto format = ToolCallFormat::granite;
  const std::string calls =
      R"([{"name": "f", "arguments": {"text": "Rome"}}, {"name": "g", "arguments": {}}])";
  const std::string expected = R"(|f {"text":"Rome"}|g {})";
  EXPECT_EQ(parsed("<|tool_call|>" + calls, format), expected);
  EXPECT_EQ(parsed("<tool_call>" + calls, format), expected);
  EXPECT_EQ(parsed("<|tool_call|>" + calls + "<|/tool_call|>", format), expected);
  EXPECT_EQ(parsed("Sure.\nfunctools" + calls, format), "Sure." + expected);
}

TEST(ToolCalls, WhatIsPrintedIsCalled) {
  const auto format = ToolCallFormat::pythonic;
  EXPECT_EQ(parsed("```tool_code\nprint(f(text=\"Rome\"))\nprint(g())\n```", format),
            R"(|f {"text":"Rome"}|g {})");
}

TEST(ToolCalls, WhatIsOnlyConsideredIsNoCall) {
  for (const std::string begin : {"<think>I could call ", ""}) {
    const std::string considered =
        begin + "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> but no.</think>";
    EXPECT_EQ(parsed(considered + "Hello!", ToolCallFormat::hermes), considered + "Hello!");
    EXPECT_EQ(parsed(considered + "\n<tool_call>{\"name\": \"g\"}</tool_call>", ToolCallFormat::hermes),
              considered + "|g {}");
    std::string often;
    for (int i = 0; i < 300; ++i) often += "<tool_call>";
    EXPECT_EQ(parsed(often + considered + "<tool_call>{\"name\": \"g\"}</tool_call>", ToolCallFormat::hermes),
              often + considered + "|g {}");
  }
  const std::string cut = "<think>I could <tool_call>{\"name\": \"f\"}</tool_call>";
  EXPECT_EQ(parsed(cut, ToolCallFormat::hermes), cut);
  EXPECT_EQ(parsed("<think>Hm.</think>\n\n{\"name\": \"f\", \"parameters\": {}}", ToolCallFormat::llama),
            "<think>Hm.</think>|f {}");
  EXPECT_EQ(parsed("{\"name\": \"f\", \"parameters\": {}}</think>No.", ToolCallFormat::llama),
            "{\"name\": \"f\", \"parameters\": {}}</think>No.");
  EXPECT_EQ(parsed("<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"</think>\"}}</tool_call>",
                   ToolCallFormat::hermes),
            R"(|f {"text":"</think>"})");
}

TEST(ToolCalls, BackticksAroundOtherTextQuoteNoCall) {
  EXPECT_EQ(parsed("`a` and ``b <tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"``\"}}</tool_call>",
                   ToolCallFormat::hermes),
            R"(`a` and ``b|f {"text":"``"})");
  EXPECT_EQ(parsed("```\ncode\n```\n<tool_call>{\"name\": \"f\"}</tool_call>", ToolCallFormat::hermes),
            "```\ncode\n```|f {}");
}

// An answer that the largest length cuts anywhere is content, or calls that are whole.
TEST(ToolCalls, AnswersCutAnywhereLoseNothing) {
  const std::pair<ToolCallFormat, std::string> answers[] = {
      {ToolCallFormat::none, "plain é"},
      {ToolCallFormat::hermes,
       "Oh é.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"text\": \"é\"}}\n</tool_call>"},
      {ToolCallFormat::qwen_coder,
       "Oh.\n<tool_call>\n<function=f>\n<parameter=text>\né\n</parameter>\n</function>\n</tool_call>"},
      {ToolCallFormat::llama, "{\"name\": \"f\", \"parameters\": {\"text\": \"é\"}}"},
      {ToolCallFormat::llama, "Oh. <|python_tag|>brave_search.call(query=\"é\")<|eom_id|>"},
      {ToolCallFormat::llama, "Oh. <function=f>{\"text\": \"é\"}</function>"},
      {ToolCallFormat::mistral,
       "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"text\": \"é\"}, \"id\": \"abcdefghi\"}]"},
      {ToolCallFormat::mistral, "Oh.[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{\"text\": \"é\"}"},
      {ToolCallFormat::deepseek,
       "Oh<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"text\": \"é\"}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolCallFormat::pythonic, "[f(text='é'), g()]"},
      {ToolCallFormat::pythonic, "Oh.\n```tool_code\nprint(f(text='é'))\n```"},
      {ToolCallFormat::pythonic, "<|tool_call_start|>[f(text='é')]<|tool_call_end|>"},
      {ToolCallFormat::granite,
       "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"text\": \"é\"}}]<|/tool_call|>"},
  };
  for (const auto& [format, answer] : answers) {
    const ParsedToolCalls whole = parse_tool_calls(answer, format, kTools);
    EXPECT_EQ(whole.calls.empty(), format == ToolCallFormat::none) << answer;
    for (std::size_t size = 0; size < answer.size(); ++size) {
      const std::string cut = answer.substr(0, size);
      parsed(cut, format);
      const ParsedToolCalls result = parse_tool_calls(cut, format, kTools);
      EXPECT_TRUE(!result.calls.empty() || result.content == cut) << cut;
      EXPECT_TRUE(result.content.starts_with(whole.content) || result.calls.empty()) << cut;
      ASSERT_LE(result.calls.size(), whole.calls.size()) << cut;
      for (std::size_t i = 0; i < result.calls.size(); ++i) {
        EXPECT_EQ(result.calls[i].name, whole.calls[i].name) << cut;
        EXPECT_EQ(result.calls[i].arguments, whole.calls[i].arguments) << cut;
      }
    }
  }
}

TEST(ToolCalls, FormatsOfTemplates) {
  EXPECT_EQ(tool_call_format("{{ '<tool_call>\\n' }}"), ToolCallFormat::hermes);
  EXPECT_EQ(tool_call_format("{{ \"[TOOL_CALLS] [\" }}"), ToolCallFormat::mistral);
  EXPECT_EQ(tool_call_format("{{ '<｜tool▁calls▁begin｜>' }}"), ToolCallFormat::deepseek);
  EXPECT_EQ(tool_call_format("{{ \"<|python_tag|>\" }}"), ToolCallFormat::llama);
  EXPECT_EQ(tool_call_format("{{ '<|tool_call_start|>[' }}"), ToolCallFormat::pythonic);
  EXPECT_EQ(tool_call_format("{{ '<tool_call>\\n<function=' }}{{ '<parameter=' }}"),
            ToolCallFormat::qwen_coder);
  EXPECT_EQ(tool_call_format("{{ '<|tool_call|>' }}"), ToolCallFormat::granite);
  EXPECT_EQ(tool_call_format("{{ '<|tool|>' + m.tools + '<|/tool|>' }}"), ToolCallFormat::granite);
  EXPECT_EQ(tool_call_format("{{ messages }}"), ToolCallFormat::none);
}

}  // namespace
}  // namespace heed
