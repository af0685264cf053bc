#include "heed/chat/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "reference/error.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

std::string render(std::string_view text, std::string_view variables = "{}",
                   const RenderOptions& options = {}) {
  return ChatTemplate::parse(text, "t").render(variables, options).text;
}

/// What jinja2 in the environment of transformers gives (tests/fixtures/chat.py).
const Json& fixture() {
  static const Json kFixture = [] {
    ::setenv("TZ", "UTC", 1);
    std::ifstream file(HEED_FIXTURES "/chat/cases.json");
    return Json::parse(file);
  }();
  return kFixture;
}

const Json& of_case(const Json& made, const char* key) {
  return made.contains(key) ? made[key] : fixture()[key];
}

RenderOptions options_of(const Json& made) {
  RenderOptions options;
  options.constants = of_case(made, "constants").dump();
  options.now = fixture()["now"].get<std::int64_t>();
  return options;
}

TEST(ChatTemplate, RendersAsTransformers) {
  ASSERT_GT(fixture()["cases"].size(), 200u);
  for (const Json& made : fixture()["cases"]) {
    SCOPED_TRACE(made["name"].get<std::string>() + ": " + made["template"].get<std::string>());
    const auto rendered = [&] {
      return ChatTemplate::parse(made["template"].get<std::string>(), "t")
          .render(of_case(made, "variables").dump(), options_of(made));
    };
    if (made.contains("error")) {
      EXPECT_ERROR(rendered(), "t: line ");
      continue;
    }
    RenderedChat chat;
    ASSERT_NO_THROW(chat = rendered());
    EXPECT_EQ(chat.text, made["text"].get<std::string>());
    Json generated = Json::array();
    const CharacterOffsets characters(chat.text);
    for (const TextSpan& span : chat.generated)
      generated.push_back({characters[span.begin], characters[span.end]});
    EXPECT_EQ(generated, made.value("generated", Json::array()));
  }
}

/// The same with each ASCII letter and digit of every string as a character of the private use area.
Json marked(const Json& json) {
  if (json.is_string()) {
    std::string text;
    for (const char c : json.get<std::string>()) {
      if (std::isalnum(static_cast<unsigned char>(c))) {
        text += {'\xEE', '\x80', static_cast<char>(0x80 | (c & 0x3F))};
      } else {
        text += c;
      }
    }
    return text;
  }
  Json result = json;
  if (json.is_structured()) {
    for (const auto& [key, member] : json.items()) {
      if (json.is_array()) result[std::stoul(key)] = marked(member);
      if (json.is_object() && key != "role") result[key] = marked(member);
    }
  }
  return result;
}

bool is_data(const RenderedChat& chat, std::size_t at) {
  return std::any_of(chat.data.begin(), chat.data.end(),
                     [&](const TextSpan& span) { return span.begin <= at && at < span.end; });
}

// What Python 3.11 and Jinja 3.1 give.
TEST(ChatTemplate, ReadsNumbersAsPython) {
  for (const auto& [text, expected] : {std::pair("'--5'|int", "0"),
                                       {"'+-5'|int", "0"},
                                       {"' -7 '|int", "-7"},
                                       {"'1_000'|int", "1000"},
                                       {"'1__0'|int(3)", "3"},
                                       {"'_1'|int", "0"},
                                       {"'1_000.5'|int", "1000"},
                                       {"'1e400'|int(4)", "4"},
                                       {"'1e400'|float", "inf"},
                                       {"'-1e400'|float", "-inf"},
                                       {"'1e-400'|float", "0.0"},
                                       {"'--5'|float", "0.0"},
                                       {"'1_0.5'|float", "10.5"}})
    EXPECT_EQ(render("{{ " + std::string(text) + " }}"), expected) << text;
}

TEST(ChatTemplate, MarksAllThatDerivesFromVariables) {
  int checked = 0;
  for (const Json& made : fixture()["cases"]) {
    SCOPED_TRACE(made["template"].get<std::string>());
    RenderedChat chat;
    try {
      chat = ChatTemplate::parse(made["template"].get<std::string>(), "t")
                 .render(marked(of_case(made, "variables")).dump(), options_of(made));
    } catch (const Error&) {
      continue;
    }
    for (std::size_t at = chat.text.find("\xEE\x80"); at != std::string::npos;
         at = chat.text.find("\xEE\x80", at + 3)) {
      EXPECT_TRUE(is_data(chat, at) && is_data(chat, at + 2)) << chat.text.substr(at);
      ++checked;
    }
    for (std::size_t i = 0; i + 1 < chat.data.size(); ++i)
      EXPECT_LT(chat.data[i].end, chat.data[i + 1].begin);
  }
  EXPECT_GT(checked, 500);
}

TEST(ChatTemplate, MarksNothingElse) {
  const ChatTemplate chatml = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content | trim + "
      "'<|im_end|>' }}{% endfor %}",
      "t");
  RenderOptions options;
  options.constants = R"({"bos_token": "<s>"})";
  const RenderedChat chat = chatml.render(
      R"({"messages": [{"role": "user", "content": " <|im_end|> "}, {"role": "<s>", "content": ""}]})",
      options);
  EXPECT_EQ(chat.text, "<s><|im_start|>user\n<|im_end|><|im_end|><|im_start|><s>\n<|im_end|>");
  EXPECT_EQ(chat.data, (std::vector<TextSpan>{{20, 30}, {52, 55}}));
}

TEST(ChatTemplate, MarksPartsOfWhatItJoinsAndCuts) {
  const std::string variables = R"({"x": "USER"})";
  const auto spans = [&](std::string_view text) {
    return ChatTemplate::parse(text, "t").render(variables).data;
  };
  using Spans = std::vector<TextSpan>;
  EXPECT_EQ(spans("{{ ('a' ~ x ~ 'b')[2:4] }}"), (Spans{{0, 2}}));
  EXPECT_EQ(spans("{{ 'a-b' | replace('-', x) }}"), (Spans{{1, 5}}));
  EXPECT_EQ(spans("{{ ['a', x, 'b'] | join('-') }}"), (Spans{{2, 6}}));
  EXPECT_EQ(spans("{{ ('a,' ~ x).split(',')[1] }}{{ 'b' }}"), (Spans{{0, 4}}));
  EXPECT_EQ(spans("{{ '%s|%s' % ('a', x) }}{{ '{}{}'.format('a', x) }}"), (Spans{{2, 6}, {7, 11}}));
  EXPECT_EQ(spans("{% set y %}<{{ x }}>{% endset %}{{ y }}"), (Spans{{1, 5}}));
  EXPECT_EQ(spans("{{ {'k': x} | tojson }}"), (Spans{{6, 12}}));
  EXPECT_EQ(spans("{{ ('a' ~ x) | upper }}"), (Spans{{0, 5}}));
  EXPECT_EQ(spans("{{ x | length }}{{ x == 'USER' }}{{ 'y' if x }}"), Spans{});
}

TEST(ChatTemplate, NamesTemplateAndLine) {
  EXPECT_ERROR(render("a\n{{ x.y }}"), "t: line 2: expected a variable x, got none of that name");
  EXPECT_ERROR(render("\n\n{% if %}"), "t: line 3: expected an expression, got %}");
  EXPECT_ERROR(render("{% if 1 %}\n"), "t: line 1: expected {% endif %}, got the end of the template");
  EXPECT_ERROR(render("{% include 'x' %}"), "expected a template that is whole in itself, got \"include\"");
  EXPECT_ERROR(render("{% for x in [] %}\n{% endif %}"),
               "t: line 2: expected a statement or else or endfor, got \"endif\"");
  EXPECT_ERROR(render("{{ raise_exception('no system') }}"), "t: line 1: no system");
  EXPECT_ERROR(render("{{ [].append(1) }}"),
               "expected a method that leaves its value as it is, got append of list");
  EXPECT_ERROR(render("{{ x | nosuch }}"), "expected a filter that exists, got nosuch");
  EXPECT_ERROR(render("{{ 'a' | indent(with=2) }}"), "expected an argument that indent has, got with");
  EXPECT_ERROR(render("\xFF"), "t: expected UTF-8");
  EXPECT_ERROR(render("", "[]"), "t: variables: expected an object, got an array of 0");
  EXPECT_ERROR(render("", R"({"x": 18446744073709551615})"), "t: variables: expected integers of 64 bits");
}

TEST(ChatTemplate, EndsAtItsLimits) {
  RenderOptions few;
  few.limits.steps = 100'000;
  RenderOptions small;
  small.limits.bytes = 1 << 20;
  EXPECT_ERROR(
      render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{}", few),
      "limit of steps");
  EXPECT_ERROR(render("{{ 'abc' * 1000000000000 }}"), "limit of memory");
  EXPECT_ERROR(render("{{ [1] * 1000000000000 }}"), "limit of memory");
  EXPECT_ERROR(render("{% set n = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x "
                      "%}{% endfor %}",
                      "{}", small),
               "limit of memory");
  EXPECT_ERROR(render("{% set n = namespace(x=[1]) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% "
                      "endfor %}{{ n.x }}",
                      "{}", few),
               "limit of steps");
  EXPECT_ERROR(
      render("{% set n = namespace(x=[1]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"),
      "nested at most 100 deep");
  EXPECT_ERROR(render("{% set n = namespace(x=[1]) %}{% for i in range(9999) %}{% set n.x = [n.x] | select "
                      "%}{% endfor %}"),
               "nested at most 100 deep");
  EXPECT_ERROR(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "expected less recursion");
  EXPECT_ERROR(render("{{ '%999999999s' % 'a' }}"), "expected a number of at most 1000000 in a format");
  EXPECT_ERROR(render("{{ 9223372036854775807 + 1 }}"), "expected a result of 64 bits");
  EXPECT_ERROR(render("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
               "expected nesting of at most 64");
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_ERROR(render(sum + " }}"), "at most 200 steps one upon another");
  EXPECT_ERROR(render(std::string((1u << 20) + 1, 'a')), "expected a template of at most 1 MiB");
}

TEST(ChatTemplate, FreesWhatHoldsItself) {
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.n = n %}{% set n.m = [n] %}{{ n.n.m | length }}"), "1");
  EXPECT_EQ(render("{% macro m() %}{{ n is defined }}{% endmacro %}{% set n = namespace(m=m) %}{{ n.m() }}"),
            "True");
}

TEST(ChatTemplate, GeneratedPartsKeepTheirPlaces) {
  const RenderedChat chat =
      ChatTemplate::parse(
          "{% macro m() %}[{% generation %}ab{% endgeneration %}]{% endmacro %}<{{ m() | trim }}>", "t")
          .render("{}");
  EXPECT_EQ(chat.text, "<[ab]>");
  EXPECT_EQ(chat.generated, (std::vector<TextSpan>{{2, 4}}));
}

}  // namespace
}  // namespace heed
