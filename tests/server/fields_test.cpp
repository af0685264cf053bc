// One walk that reads fields and describes them.
#include "server/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pause_point.h"
#include "reference/error.h"
#include "server/route.h"

namespace heed::server_test {
namespace {

using server::FieldNote;
using server::Fields;
using testing::HasSubstr;

struct Part {
  std::string name;
  std::int64_t size = 1;
  void walk(Fields& fields) {
    fields("name", name, "What it is called", {.required = "a text"});
    fields("size", size, "How large", {.least = 0, .most = 9});
  }
};

struct Request {
  bool loud = true;
  std::optional<double> share;
  std::string side = "left";
  std::vector<std::string> texts;
  std::vector<std::int64_t> ids;
  std::vector<Part> parts;
  std::optional<Part> whole;
  void walk(Fields& fields) {
    fields("loud", loud, "Whether it is heard");
    fields("share", share, "Of all", {.least = 0, .most = 1});
    fields("side", side, "Where", {.words = {"left", "right"}});
    fields("texts", texts, "Some");
    fields("numbers", ids, "Of tokens", {.least = 0, .most = 99});
    fields.each("parts", "In order", 2, [&](Fields& element) { parts.emplace_back().walk(element); });
    fields.members("whole", "All of it", [&](Fields& members) { whole.emplace().walk(members); });
    fields.refused("grammar", "there is none");
  }
};

Request read(const std::string& text, bool strict = false) {
  const Json body = server::parse_body(text);
  const server::RequestObject object(body);
  Fields fields(object, strict);
  Request request;
  request.walk(fields);
  fields.require_known();
  return request;
}

TEST(Fields, AreReadByTheirTypes) {
  const Request request = read(
      R"({"loud": false, "share": 0.5, "side": "right", "texts": "a", "numbers": [1, 2],
          "parts": [{"name": "b"}, {"name": "c", "size": 3}], "whole": {"name": "d"}, "grammar": false})");
  EXPECT_FALSE(request.loud);
  EXPECT_EQ(request.share, 0.5);
  EXPECT_EQ(request.side, "right");
  EXPECT_EQ(request.texts, std::vector<std::string>{"a"});
  EXPECT_EQ(request.ids, (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(request.parts.size(), 2u);
  EXPECT_EQ(request.parts[1].name, "c");
  EXPECT_EQ(request.parts[1].size, 3);
  EXPECT_EQ(request.whole->size, 1);
  const Request none = read(R"({"loud": null})");
  EXPECT_TRUE(none.loud) << "null is as absent";
  EXPECT_FALSE(none.share || none.whole);
}

TEST(Fields, AreNamedWhereTheyAreWrong) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"loud": 1})", "request: loud: expected true or false, got 1"},
           {R"({"share": 2})", "request: share: expected a number from 0 to 1, got 2"},
           {R"({"side": "up"})", "request: side: expected left or right, got \"up\""},
           {R"({"texts": 5})", "request: texts: expected a string or an array of strings, got 5"},
           {R"({"numbers": [1, 100]})", "request: numbers.1: expected an integer from 0 to 99, got 100"},
           {R"({"parts": [{"name": "a"}, {}]})", "request: parts.1.name: expected a text, got nothing"},
           {R"({"parts": [1]})", "request: parts.0: expected an object, got 1"},
           {R"({"parts": [{}, {}, {}]})", "request: parts: expected at most 2, got an array of 3"},
           {R"({"whole": {"name": "a", "size": 10}})",
            "request: whole.size: expected an integer from 0 to 9, got 10"},
           {R"({"grammar": "x"})", "request: grammar: expected none (there is none), got \"x\""}})
    EXPECT_EQ(error_of([&, text = text] { read(text); }), message) << text;
}

TEST(Fields, UnknownOnesAreIgnoredUnlessTheyAreNear) {
  EXPECT_TRUE(read(R"({"user": 1, "lout": 1})").loud) << "short names are near to many";
  EXPECT_EQ(error_of([] { read(R"({"number": [1]})"); }),
            "request: number: expected a known key (perhaps numbers)");
  EXPECT_EQ(error_of([] { read(R"({"whole": {"name": "a", "color": 1}})", true); }),
            "request: whole.color: expected a known key");
}

TEST(Fields, AreDescribedByTheSameWalk) {
  server::Route route{"POST", {"/shout"}, server::ErrorForm::message, "Shouts", "Shouts a text"};
  route.walk = [](Fields& fields) { Request().walk(fields); };
  const std::vector<FieldNote> notes = server::fields_of(route);
  ASSERT_EQ(notes.size(), 8u);
  EXPECT_EQ(notes[0].fallback, true);
  EXPECT_EQ(notes[5].members.size(), 2u);
  const Json document = server::openapi({route}, "a test");
  const std::string error = document["paths"]["/shout"]["post"]["responses"]["default"]["content"]
                                    ["application/json"]["schema"]["$ref"];
  EXPECT_TRUE(document.contains(Json::json_pointer(error.substr(1)))) << error;
  const Json schema = server::openapi({route}, "a test")["paths"]["/shout"]["post"]["requestBody"]["content"]
                                                        ["application/json"]["schema"]["properties"];
  EXPECT_EQ(schema["loud"],
            (Json{{"description", "Whether it is heard"}, {"type", "boolean"}, {"default", true}}));
  EXPECT_EQ(schema["share"]["maximum"], 1);
  EXPECT_EQ(schema["side"]["enum"], (Json{"left", "right"}));
  EXPECT_EQ(schema["numbers"]["items"]["maximum"], 99);
  EXPECT_EQ(schema["parts"]["items"]["required"], Json{"name"});
  EXPECT_EQ(schema["whole"]["properties"]["size"]["default"], 1);
  EXPECT_FALSE(schema.contains("grammar"));
  const std::string table = server::field_tables({route});
  EXPECT_THAT(table, HasSubstr("### Shouts\n`/shout`\n"));
  EXPECT_THAT(table, HasSubstr("| `side` | `left`, `right`; `\"left\"` | Where |\n"));
  EXPECT_THAT(table, HasSubstr("| `parts.name` | text; required | What it is called |\n"));
  EXPECT_THAT(table, HasSubstr("Not supported, and refused: `grammar` (there is none).\n"));
}

TEST(Answers, AreDescribedByTheirShapes) {
  const auto schema = [](const char* shape) { return server::shape_schema(Json::parse(shape)); };
  EXPECT_EQ(schema(R"("any")"), Json::object());
  EXPECT_EQ(schema(R"("integer|null")"), (Json{{"type", {"integer", "null"}}}));
  EXPECT_EQ(schema(R"("=stop|length")"), (Json{{"enum", {"stop", "length"}}}));
  EXPECT_EQ(schema(R"(["number"])"), Json::parse(R"({"type": "array", "items": {"type": "number"}})"));
  EXPECT_EQ(
      schema(R"({"a": "string", "b?": {"|": ["null", ["=x"]]}, "*": "boolean"})"),
      Json::parse(
          R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "null"},
                {"type": "array", "items": {"enum": ["x"]}}]}}, "required": ["a"],
                "additionalProperties": {"type": "boolean"}})"));
  server::Route route{"GET", {"/a"}, server::ErrorForm::message,
                      "A",   "A",    {{R"("string")"}, {R"(["string"])"}}};
  route.answers.push_back({.type = "text/plain"});
  route.answers.push_back({.shape = R"({"b": "integer"})", .type = server::kEventsType});
  route.answers.push_back({.shape = R"("null")", .status = 503});
  const Json responses = server::openapi({route}, "a test")["paths"]["/a"]["get"]["responses"];
  EXPECT_EQ(
      responses["200"]["content"]["application/json"]["schema"],
      Json::parse(R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})"));
  EXPECT_EQ(responses["200"]["content"]["text/plain"]["schema"]["type"], "string");
  EXPECT_EQ(responses["200"]["content"]["text/event-stream"]["x-event"]["anyOf"].size(), 2u);
  EXPECT_EQ(responses["503"]["content"]["application/json"]["schema"]["type"], "null");
}

TEST(Fields, BodiesAreReadInPieces) {
  int pauses = 0;
  const PauseScope count([&] { ++pauses; });
  std::string text(3'000'000, 'a');
  text += "\u00e9\"\\\n";
  Json numbers = Json::array();
  for (int i = 0; i < 5000; ++i) numbers.push_back(i);
  const Json body = {{"text", text}, {"numbers", numbers}};
  EXPECT_EQ(server::parse_body(json_text(body)), body);
  EXPECT_GE(pauses, 11 + 4);
}

}  // namespace
}  // namespace heed::server_test
