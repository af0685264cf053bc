#include "heed/grammar/grammar.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "matching.h"
#include "reference/error.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

/// What the jsonschema package says (tests/fixtures/grammar.py).
TEST(Grammar, MatchesAsJsonschema) {
  std::ifstream file(HEED_FIXTURES "/grammar/cases.json");
  const Json cases = Json::parse(file);
  ASSERT_GT(cases.size(), 200u);
  for (const Json& made : cases) {
    const std::string schema = made["schema"].dump();
    SCOPED_TRACE(schema);
    const Grammar grammar = Grammar::json_schema(schema);
    for (const auto& [text, expected] : made["texts"].items()) {
      EXPECT_EQ(matches(grammar, text), expected.get<bool>()) << text;
      if (expected.get<bool>()) {
        EXPECT_TRUE(begins(grammar, text.substr(0, text.size() / 2)));
      }
    }
  }
}

/// Field types of Pydantic (tests/fixtures/grammar_pydantic.py): all but those with a constraint that is not
/// supported, which may be ignored.
TEST(Grammar, FollowsSchemasOfPydantic) {
  std::ifstream file(HEED_FIXTURES "/grammar/pydantic.json");
  const Json fields = Json::parse(file);
  ASSERT_GT(fields.size(), 60u);
  const std::set<std::string> constrained = {"Decimal", "set", "frozenset", "multiple", "dict_constr"};
  for (const Json& field : fields) {
    const std::string type = field["type"], schema = field["schema"].dump(), value = field["value"].dump();
    SCOPED_TRACE(type);
    if (constrained.count(type) == 0) {
      EXPECT_TRUE(matches(Grammar::json_schema(schema), value));
    } else {
      EXPECT_THROW(Grammar::json_schema(schema), Error);
    }
    const Grammar lax = Grammar::json_schema(schema, "r", UnsupportedKeywords::ignored);
    EXPECT_TRUE(matches(lax, value));
    EXPECT_GE(lax.notes().size(), constrained.count(type));
  }
}

TEST(Grammar, ReadsNumbersAndStringsOfJson) {
  const Grammar any = Grammar::json_schema("true");
  for (const char* text :
       {"0", "-0", "10", "-1.5e+3", "1E0", "0.00", "1e-07", "\"\"", R"("\"\\\/\b\f\n\r\t\u00e9")",
        "\"\xC3\xA9\"", "\"\xF0\x9F\x98\x80\"", R"("\uD83D\uDE00")", R"("\ud83d\ude00")", "\"\x7F\"",
        "[[],{}]", " null", R"({"a": 1, "a": [true , false]})"}) {
    const bool spaced = std::string(text).find(" ,") != std::string::npos;  // no space before a comma
    EXPECT_EQ(matches(any, text), !spaced) << text;
  }
  for (const char* text : {"",
                           "00",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "01",
                           "-",
                           "--1",
                           "0x1",
                           "NaN",
                           "Infinity",
                           "'a'",
                           "\"",
                           "\"\n\"",
                           R"("\x")",
                           R"("\u12")",
                           R"("\uD83D")",
                           R"("\uDE00")",
                           R"("\uD83Dx")",
                           "\"\x80\"",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "\"\xF5\x80\x80\x80\"",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "truefalse",
                           "nul",
                           "1 ",
                           "  1",
                           "\t1",
                           "[1  ,2]",
                           "[\n\n1]",
                           "[1]]",
                           "1e100"}) {
    EXPECT_FALSE(matches(any, text)) << text;
  }
  EXPECT_TRUE(matches(any, std::string(100, '9') + "." + std::string(100, '9') + "e-99"));
  EXPECT_FALSE(begins(any, std::string(101, '9')));
  EXPECT_FALSE(begins(any, "0." + std::string(101, '9')));
  EXPECT_TRUE(begins(any, "[\n" + std::string(32, ' ') + "1"));
  EXPECT_FALSE(begins(any, "[\n" + std::string(33, ' ')));
  EXPECT_TRUE(matches(any, std::string(500, '[') + std::string(500, ']')));
}

TEST(Grammar, TellsWhereATextMayEnd) {
  GrammarMatcher matcher(Grammar::json_schema(R"({"type": "integer", "minimum": 5, "maximum": 120})"));
  EXPECT_FALSE(matcher.may_end());
  GrammarMatcher other = matcher;
  EXPECT_TRUE(matcher.accept("1"));
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(matcher.accept("2"));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.must_end());
  EXPECT_TRUE(matcher.accept("0"));
  EXPECT_TRUE(matcher.must_end());
  EXPECT_FALSE(matcher.accept("0"));
  EXPECT_FALSE(matcher.may_end());
  EXPECT_FALSE(matcher.accept("1"));
  EXPECT_TRUE(other.accept("9"));
  EXPECT_TRUE(other.may_end());
}

TEST(Grammar, KeepsPropertiesInOrder) {
  const Grammar grammar = Grammar::json_schema(
      R"({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["c", "b"], "additionalProperties": true})");
  EXPECT_TRUE(matches(grammar, R"({"a":1,"b":2,"c":3})"));
  EXPECT_TRUE(matches(grammar, R"({"b":2,"c":"x","d":null})"));
  EXPECT_FALSE(matches(grammar, R"({"b":2,"a":1,"c":3})"));
  EXPECT_FALSE(matches(grammar, R"({"b":2,"c":3,"a":"not an integer"})"));
  EXPECT_FALSE(matches(grammar, R"({"b":2,"c":3,"\u0061":"not an integer"})"));
  EXPECT_FALSE(matches(grammar, R"({"b":2})"));
}

TEST(Grammar, JsonObject) {
  const Grammar grammar = Grammar::json_object();
  EXPECT_TRUE(matches(grammar, R"({"a": [1, {"b": null}]})"));
  EXPECT_FALSE(matches(grammar, "[1]"));
  EXPECT_FALSE(matches(grammar, "{} "));
}

TEST(Grammar, Choices) {
  const std::vector<std::string> texts = {"yes", "no", "yes, but"};
  const Grammar grammar = Grammar::choices(texts);
  EXPECT_TRUE(matches(grammar, "yes"));
  EXPECT_TRUE(matches(grammar, "yes, but"));
  EXPECT_FALSE(matches(grammar, "ye"));
  EXPECT_FALSE(matches(grammar, "nono"));
  EXPECT_ERROR(Grammar::choices(std::vector<std::string>{}, "c"),
               "c: expected a grammar that some text matches");
  EXPECT_ERROR(Grammar::choices(std::vector<std::string>{""}, "c"),
               "c: expected texts of at least one character");
}

TEST(Grammar, ToolCalls) {
  const char* tools = R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
      "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"], "$defs": {"n": {"type": "integer"}}}}},
      {"type": "function", "function": {"name": "now"}}])";
  const Grammar any = Grammar::tool_calls(tools);
  EXPECT_TRUE(matches(any, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 5}}\n</tool_call>"));
  EXPECT_TRUE(matches(any, "<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>"));
  EXPECT_FALSE(matches(any, "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\": 5}}\n</tool_call>"));
  const Grammar named = Grammar::tool_calls(tools, {"", "", "parameters"}, "now");
  EXPECT_TRUE(matches(named, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(matches(named, R"({"name": "f", "parameters": {"x": 1}})"));
  EXPECT_ERROR(Grammar::tool_calls(tools, {}, "g"), "tools: expected a function g, got none");
  EXPECT_ERROR(Grammar::tool_calls(R"([{"function": {"name": "h", "parameters": {"not": {}}}}])"),
               "tools: h: #/not: expected");
  EXPECT_ERROR(Grammar::tool_calls(R"([{"function": {}}])"), "tools: 0.function");
}

TEST(Grammar, CallsHaveTheSyntaxOfTheModel) {
  using Syntax = ToolCallMarks::Syntax;
  const char* tools = R"([{"function": {"name": "f", "parameters": {"type": "object", "properties": {
      "a": {"type": "string"}, "n": {"type": "integer"}, "b": {"enum": ["x", "y"]},
      "c": {"type": "array", "items": {"type": ["boolean", "null"]}}, "d": {"type": "string", "pattern": "^d+$"}},
      "required": ["a"]}}}, {"function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
      {"function": {"name": "none", "parameters": {}}}, {"function": {"name": "some", "parameters": {"type": "object",
      "additionalProperties": true}}}])";
  const Grammar object = Grammar::tool_calls(tools, {"", ""});
  EXPECT_TRUE(matches(object, R"({"name": "now", "arguments": {}})"));
  EXPECT_FALSE(matches(object, R"({"name": "now", "arguments": {"x": 5}})"));
  EXPECT_FALSE(matches(object, R"({"name": "none", "arguments": {"x": 5}})"));
  EXPECT_TRUE(matches(object, R"({"name": "some", "arguments": {"x": 5}})"));
  const Grammar code = Grammar::tool_calls(
      tools, {.begin = "", .end = "\n```", .syntax = Syntax::named, .name_end = "\n```json\n"});
  EXPECT_TRUE(matches(code, "f\n```json\n{\"a\":\"b\"}\n```"));
  EXPECT_FALSE(matches(code, "f\n```json\n{}\n```"));

  const Grammar tags = Grammar::tool_calls(tools, {.syntax = Syntax::tags});
  const auto tagged = [](const std::string& parameters) {
    return "<tool_call>\n<function=f>" + parameters + "\n</function>\n</tool_call>";
  };
  const std::string a = "\n<parameter=a>\nA \"b\"\n<c>\n</parameter\n\n</parameter>";
  EXPECT_TRUE(matches(tags, tagged(a)));
  EXPECT_TRUE(matches(tags, "<tool_call>\n<function=now>\n</function>\n</tool_call>"));
  EXPECT_TRUE(matches(tags, tagged(a + "\n<parameter=n>\n5\n</parameter>\n<parameter=b>\nx\n</parameter>")));
  EXPECT_TRUE(matches(
      tags, tagged(a + "\n<parameter=c>\n[true,null]\n</parameter>\n<parameter=d>\ndd\n</parameter>")));
  EXPECT_FALSE(matches(tags, tagged(a + "\n<parameter=d>\ne\n</parameter>")));
  EXPECT_FALSE(matches(tags, tagged(a + "\n<parameter=n>\nfive\n</parameter>")));
  EXPECT_FALSE(matches(tags, tagged("\n<parameter=n>\n5\n</parameter>")));
  EXPECT_FALSE(begins(tags, "<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n</parameter>"));
  EXPECT_TRUE(matches(tags, "<tool_call>\n{\"name\": \"some\", \"arguments\": {\"x\": 5}}\n</tool_call>"));

  const ToolCallMarks in_list{.begin = "",
                              .end = "",
                              .syntax = Syntax::python,
                              .list_begin = "[",
                              .list_end = "]",
                              .separator = ", ",
                              .several = true};
  const Grammar python = Grammar::tool_calls(R"([{"function": {"name": "f", "parameters": {"type": "object",
      "properties": {"a": {"type": "string"}, "c": {"type": "array", "items": {"type": ["boolean", "null"]}}}}}},
      {"function": {"name": "now"}}])",
                                             in_list);
  EXPECT_TRUE(matches(python, "[f(a=\"b\", c=[True,None])]"));
  EXPECT_TRUE(matches(python, "[f(c=[False]), now(), f()]"));
  EXPECT_FALSE(matches(python, "[f(c=[false])]"));
  EXPECT_FALSE(matches(python, "[f(, c=[])]"));
  EXPECT_FALSE(matches(python, "[]"));
  EXPECT_ERROR(Grammar::tool_calls(tools, in_list), "tools: some: expected parameters that are one object");
  const Grammar two = Grammar::tool_calls(tools, {.several = true}, "now");
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(matches(two, now));
  EXPECT_TRUE(matches(two, now + "\n" + now));
  EXPECT_FALSE(matches(Grammar::tool_calls(tools, {}, "now"), now + "\n" + now));
}

// A call of each kind as texts and ids: which are accepted, whole.
TEST(Grammar, SpecialTokensStandInMarks) {
  const char* tools = R"([{"function": {"name": "f"}}, {"function": {"name": "g"}}])";
  ToolCallMarks marks{.begin = "[A]",
                      .end = "",
                      .syntax = ToolCallMarks::Syntax::named,
                      .separator = "",
                      .several = true,
                      .name_end = "[B]",
                      .tokens = {{"[A]", 7}, {"[B]", 9}, {"[C]", 8}}};
  struct Piece {
    std::string text = {};
    std::int64_t id = -1;
  };
  const auto accepts = [&](const std::vector<Piece>& pieces) {
    GrammarMatcher matcher(Grammar::tool_calls(tools, marks));
    for (const Piece& piece : pieces)
      if (piece.text.empty() ? !matcher.accept_token(piece.id) : !matcher.accept(piece.text)) return false;
    return matcher.may_end();
  };
  const Piece a{.id = 7}, b{.id = 9}, c{.id = 8};
  EXPECT_TRUE(accepts({a, {"f"}, b, {"{}"}}));
  EXPECT_TRUE(accepts({a, {"f"}, b, {"{}"}, a, {"g"}, b, {"{}"}}));
  EXPECT_FALSE(accepts({a, {"f"}, b}));
  EXPECT_FALSE(accepts({a, {"f[B]{}"}}));
  EXPECT_FALSE(accepts({{"[A]f"}, b, {"{}"}}));
  EXPECT_FALSE(accepts({b, {"f"}, b, {"{}"}}));
  EXPECT_FALSE(accepts({a, b, {"f{}"}}));
  EXPECT_FALSE(accepts({a, {"f"}, b, {"{"}, a}));
  marks.id_begin = "[C]";
  EXPECT_TRUE(accepts({a, {"f"}, c, {"aB3456789"}, b, {"{}"}}));
  EXPECT_FALSE(accepts({a, {"f"}, c, {"aB345678"}, b, {"{}"}}));
  EXPECT_FALSE(accepts({a, {"f"}, b, {"{}"}}));
  marks.id_begin = "id=";  // texts and tokens in one mark
  marks.end = ". [B][C]!";
  EXPECT_TRUE(accepts({a, {"fid=aB3456789"}, b, {"{}. "}, b, c, {"!"}}));
  EXPECT_FALSE(accepts({a, {"fid=aB3456789"}, b, {"{}. "}, c, b, {"!"}}));
  marks.tokens.push_back({"", 5});
  EXPECT_ERROR(Grammar::tool_calls(tools, marks),
               "tools: expected special tokens with texts and ids, got \"\", 5");
}

// Alternatives whose ways multiply with every bracket end in an error instead of all memory.
TEST(Grammar, LimitsAmbiguity) {
  const Grammar grammar = Grammar::json_schema(
      R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"},
      "maxItems": 9}, {"type": "null"}]})");
  EXPECT_TRUE(matches(grammar, "[[null]]"));
  EXPECT_ERROR(begins(grammar, std::string(40, '[')),
               "response_format: expected a text with at most 20000 ways");
}

}  // namespace
}  // namespace heed
