// Whatever recurses in templates, conversations and answers: the deepest that each limit allows fits a small
// stack, and what is deeper is an error.
#include "reference/small_stack.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/chat/chat_template.h"
#include "heed/chat/tool_calls.h"
#include "reference/error.h"

namespace heed {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string nested(const std::string& open, const std::string& inside, const std::string& close, int times) {
  return repeated(open, times) + inside + repeated(close, times);
}

/// What a template writes, or its error.
std::string outcome(const std::string& text, const std::string& variables = "{}") {
  std::string result;
  on_small_stack([&] {
    try {
      result = ChatTemplate::parse(text, "t").render(variables).text;
    } catch (const Error& error) {
      result = error.what();
    }
  });
  return result;
}

TEST(ChatSmallStack, ParsesNestedExpressionsAndStatements) {
  const std::vector<std::pair<std::string, std::string>> expressions = {
      {"(", ")"},       {"[", "]"},      {"{1: ", "}"},           {"not ", ""},
      {"- ", ""},       {"f(", ")"},     {"f(x=", ")"},           {"1 if ", ""},
      {"'a' ~ (", ")"}, {"1 + (", ")"},  {"1 < (", ")"},          {"x[", "]"},
      {"x[1:", "]"},    {"1 | f(", ")"}, {"1 is eq(", ")"},       {"1 if 1 else ", ""},
      {"f(*", ")"},     {"f(**", ")"},   {"[not -(1 | f(", "))]"}};
  for (const auto& [open, close] : expressions) {
    SCOPED_TRACE(open);
    for (const int depth : {20, 50, 63}) {
      const std::string text = nested(open, "1", close, depth);
      outcome("{% if 0 %}{{ " + text + " }}{% endif %}");
      outcome("{{ " + text + " }}");
    }
    EXPECT_THAT(outcome("{{ " + nested(open, "1", close, 2000) + " }}"), testing::HasSubstr("got "));
  }
  const std::vector<std::pair<std::string, std::string>> statements = {
      {"{% if 1 %}", "{% endif %}"},
      {"{% if 0 %}{% else %}", "{% endif %}"},
      {"{% for x in [1] %}", "{% endfor %}"},
      {"{% for x in [] %}{% else %}", "{% endfor %}"},
      {"{% with x = 1 %}", "{% endwith %}"},
      {"{% set x %}", "{% endset %}"},
      {"{% filter upper %}", "{% endfilter %}"},
      {"{% generation %}", "{% endgeneration %}"},
      {"{% macro m() %}", "{% endmacro %}{{ m() }}"},
      {"{% macro n() %}{{ caller() }}{% endmacro %}{% call n() %}", "{% endcall %}"}};
  for (const auto& [open, close] : statements) {
    SCOPED_TRACE(open);
    for (const int depth : {20, 50, 63}) outcome(nested(open, "{{ [[1]] }}", close, depth));
    EXPECT_THAT(outcome(nested(open, "a", close, 2000)), testing::HasSubstr("nesting of at most 64"));
  }
}

TEST(ChatSmallStack, RunsMacrosAndLoopsThatCallThemselves) {
  const std::vector<std::string> bodies = {"{{ m() }}",
                                           "{{ [m()] }}",
                                           "{{ {'a': m()} }}",
                                           "{{ m() ~ 'a' }}",
                                           "{{ m() == 1 }}",
                                           "{{ (m(),)[0] }}",
                                           "{{ 'a'[m():] }}",
                                           "{{ m() | upper }}",
                                           "{{ 'a' | replace('a', m()) }}",
                                           "{{ [1] | map('default', m()) | list }}",
                                           "{{ 1 if m() }}",
                                           "{{ m(m()) }}",
                                           "{{ -m() }}",
                                           "{{ m() + 'a' }}",
                                           "{{ 1 is eq(m()) }}",
                                           "{{ not m() }}",
                                           "{{ m() and 1 }}",
                                           "{{ '%s' % m() }}",
                                           "{{ '{}'.format(m()) }}",
                                           "{{ dict(a=m()) }}",
                                           "{{ [[[[[[[[m()]]]]]]]] }}",
                                           "{{ (((1 + (2 ~ [m(), 1][0])))) }}",
                                           "{% if m() %}{% endif %}",
                                           "{% for x in m() %}{% endfor %}",
                                           "{% for x in [1] %}{{ m() }}{% endfor %}",
                                           "{% for x in [1] if m() %}{% endfor %}",
                                           "{% set x = m() %}",
                                           "{% set x %}{{ m() }}{% endset %}",
                                           "{% with x = m() %}{% endwith %}",
                                           "{% with %}{{ m() }}{% endwith %}",
                                           "{% filter upper %}{{ m() }}{% endfilter %}",
                                           "{% generation %}{{ m() }}{% endgeneration %}",
                                           "{% call m() %}{% endcall %}{{ caller is defined }}",
                                           "{% macro n() %}{{ m() }}{% endmacro %}{{ n() }}",
                                           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
                                           "{% for a in [1] %}{% if 1 %}{% with %}{% set x %}{{ [m()] }}{% "
                                           "endset %}{% endwith %}{% endif %}{% endfor %}"};
  for (const std::string& body : bodies) {
    SCOPED_TRACE(body);
    EXPECT_THAT(outcome("{% macro m() %}" + body + "{% endmacro %}{{ m() }}"),
                testing::HasSubstr("expected less recursion"));
  }
  EXPECT_THAT(outcome("{% macro m(a=m()) %}{% endmacro %}{{ m() }}"), testing::HasSubstr("less recursion"));
  EXPECT_THAT(outcome("{{ 'a' | map(*(['map'] * 30000)) | list }}"), testing::HasSubstr("less recursion"));
  EXPECT_EQ(outcome("{{ 'a' | map('map', 'upper') | map('first') | list }}"), "['A']");
}

TEST(ChatSmallStack, PrintsComparesAndFreesDeepValues) {
  const std::string make =
      "{% set n = namespace(l=1, t=1, d=1) %}{% for i in range(97) %}{% set n.l = [n.l] %}{% set n.t = "
      "(n.t,) "
      "%}{% set n.d = {'a': n.d} %}{% endfor %}";
  for (const char* use :
       {"{{ n.l }}{{ n.t }}{{ n.d }}", "{{ n.l | tojson }}{{ n.d | tojson(indent=2) }}",
        "{{ n.l == n.l }}{{ n.d == n.d }}{{ n.t in [n.t] }}", "{{ n.l < n.l }}",
        "{{ [n.l, n.l] | sort | length }}", "{{ {n.t: 1}[n.t] }}", "{{ [n.t] | unique | list | length }}",
        "{{ n.l | string | length }}", "{{ '%s' % (n.l,) }}", "{{ n.d.items() | list | length }}"}) {
    SCOPED_TRACE(use);
    EXPECT_THAT(outcome(make + use), testing::Not(testing::HasSubstr("t: ")));
  }
  const std::string deep = nested("[", "1", "]", 61);
  EXPECT_EQ(outcome("{{ x }}", "{\"x\": " + deep + "}"), deep);
  EXPECT_EQ(outcome("{{ x | tojson }}", "{\"x\": " + deep + "}"), deep);
  EXPECT_THAT(outcome("{{ x }}", "{\"x\": " + nested("[", "", "]", 5000) + "}"),
              testing::HasSubstr("nesting of at most 64"));
}

// Objects that hold one another: chains of any length would be freed from one end to the other.
TEST(ChatSmallStack, FreesChains) {
  const auto chain = [](const std::string& start, const std::string& step) {
    return outcome("{% set n = namespace(v=" + start + ") %}{% for i in range(20000) %}" + step +
                   "{% endfor %}done");
  };
  for (const char* step :
       {"{% set n.v = joiner(n.v) %}", "{% set n.v = cycler(n.v) %}", "{% set n.v = cycler(n.v).next %}"})
    EXPECT_THAT(chain("1", step), testing::HasSubstr("objects that hold one another at most 200 deep"));
  EXPECT_EQ(chain("1", "{% set n.v = namespace(v=n.v) %}"), "done");
  EXPECT_EQ(
      chain("1", "{% for j in [1] %}{% if loop.changed(n.v) %}{% set n.v = loop %}{% endif %}{% endfor %}"),
      "done");
  EXPECT_EQ(outcome("{% set n = namespace() %}{% for x in [1] %}{% with %}{% macro f() %}{% endmacro %}"
                    "{% set n.f = f %}{% endwith %}{% set g = n.f %}{% endfor %}done"),
            "done");
}

TEST(ChatSmallStack, ReadsCalls) {
  on_small_stack([] {
    for (const int depth : {50, 60, 5000}) {
      const std::string value = nested("[", "1", "]", depth);
      for (const ToolCallFormat format :
           {ToolCallFormat::hermes, ToolCallFormat::llama, ToolCallFormat::pythonic}) {
        const char* tools = R"([{"function": {"name": "f"}}])";
        parse_tool_calls("[f(a=" + value + ")]", format, tools);
        parse_tool_calls("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + value + "}}</tool_call>",
                         format, tools);
      }
    }
  });
}

}  // namespace
}  // namespace heed
