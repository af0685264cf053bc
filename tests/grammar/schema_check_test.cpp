// What is not supported is an error that names its place.
#include "grammar/schema_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "grammar/matching.h"
#include "heed/grammar/grammar.h"
#include "reference/error.h"
#include "reference/small_stack.h"

namespace heed {
namespace {

TEST(SchemaCheck, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"properties": {"a": {"multipleOf": 2}}})",
       "r: #/properties/a/multipleOf: expected a keyword that a grammar can follow, got \"multipleOf\""},
      {R"({"not": {}})", "r: #/not: expected a keyword"},
      {R"({"type": "object", "patternProperties": {}})", "r: #/patternProperties: expected a keyword"},
      {R"({"properties": {"a/b~": {"if": true}}})", "r: #/properties/a~1b~0/if: expected a keyword"},
      {R"({"type": "text"})",
       "r: #/type: expected array, boolean, integer, null, number, object or string, got \"text\""},
      {R"({"type": ["string", 5]})", "r: #/type: expected array, boolean"},
      {R"({"items": [{}]})", "r: #/items: expected a schema (a list is prefixItems), got an array of 1"},
      {R"({"properties": {"a": 5}})", "r: #/properties/a: expected a schema: an object or a boolean, got 5"},
      {R"({"required": [1]})", "r: #/required: expected an array of names, got 1"},
      {R"({"type": "string", "minLength": 1.0, "maxLength": 2.0})", "no error"},
      {R"({"minLength": 1.5})", "r: #/minLength: expected a number of at least 0, got 1.5"},
      {R"({"minLength": -1})", "r: #/minLength: expected a number of at least 0, got -1"},
      {R"({"exclusiveMinimum": true})", "r: #/exclusiveMinimum: expected a number, got true"},
      {R"({"minimum": 1e300, "exclusiveMaximum": 1e301})", "no error"},
      {R"({"uniqueItems": true})", "r: #/uniqueItems: expected false"},
      {R"({"$ref": "other.json"})", "r: #/$ref: expected a reference to a part of this schema"},
      {R"({"$ref": "#/$defs/none"})", "r: #/$ref: expected a reference to a part of this schema"},
      {R"({"anyOf": []})", "r: #/anyOf: expected an array of schemas"},
      {R"({"format": 5})", "r: #/format: expected a text, got 5"},
      {R"({"pattern": "(?=a)b"})", "r: #/pattern: expected a regular expression of"},
      {R"({"pattern": "a\\1"})", "r: #/pattern: expected a regular expression of"},
      {R"({"pattern": "a{1,99999}"})", "r: #/pattern: expected at most 10000 repetitions"},
      {R"({"pattern": "((a{1000}){1000}){1000}"})", "states describe, got more"},
      {R"({"type": "string", "maxLength": 1000000000})", "r: #: expected texts that"},
      {R"({"type": "array", "items": {}, "minItems": 1000000000})", "r: #: expected a grammar of at most"},
      {R"({"properties": {"a": {"enum": ["x", "y"], "maxLength": 1}}})",
       "r: #/properties/a: expected enum and const without other keywords than type"},
      {R"({"oneOf": [{"type": "string"}, {"maxLength": 3}]})",
       "r: #/oneOf: expected branches of which each value matches one"},
      {R"({"oneOf": [{"type": "object"}, {"maxLength": 3}]})", "r: #/oneOf: expected branches"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "r: #/oneOf: expected branches"},
      {R"({"oneOf": [{"type": "string"}, {"type": "null"}, {"const": 5}]})", "no error"},
      {R"({"properties": {"a": {"$id": "x"}}})",
       "r: #/properties/a/$id: expected no $id but that of the whole schema"},
      {R"({"allOf": [{"$ref": "#"}]})", "r: #: expected references and allOf that end"},
      {R"({"$ref": "#"})", "r: #: expected a schema that some value matches, got one that none does"},
      {R"(false)", "r: #: expected a schema that some value matches"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "r: #: expected a schema that some value matches"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})",
       "r: #: expected a schema that some value matches"},
      {R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {}, "minItems": 1, "maxItems": 2},
           "c": {"type": "object", "properties": {"d": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["d"]}}, "required": ["c"]})",
       "r: #/properties/c/properties/d: expected a schema that some value matches"},
      {R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}})",
       "no error"},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
       "r: #/additionalProperties: expected a schema that some value matches"},
      {R"({"a": 1, "a": 2})", "r: "},
      {"[", "r: "},
      {"5", "r: #: expected a schema: an object or a boolean, got 5"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.first);
    EXPECT_ERROR(Grammar::json_schema(one.first, "r"), one.second);
  }
  EXPECT_ERROR(Grammar::json_schema("{\"title\": \"" + std::string(300'000, 'a') + "\"}", "r"),
               "r: expected at most 262144 bytes, got 300013");
}

TEST(SchemaCheck, AnnotationsAreNotEnforced) {
  const auto notes = [](const char* schema) { return Grammar::json_schema(schema, "r").notes(); };
  EXPECT_THAT(notes(R"({"type": "object", "x-order": 1, "strict": true, "properties": {
                          "f": {"type": "string", "format": "path"}, "n": {"format": "uint32", "type": "integer"},
                          "u": {"type": "string", "contentEncoding": "base64", "format": "uri"}}})"),
              testing::ElementsAre("r: #/x-order: \"x-order\" is not enforced",
                                   "r: #/strict: \"strict\" is not enforced",
                                   "r: #/properties/f/format: \"path\" is not enforced",
                                   "r: #/properties/n/format: \"uint32\" is not enforced",
                                   "r: #/properties/u/contentEncoding: \"contentEncoding\" is not enforced"));
  const Grammar number = Grammar::json_schema(R"({"type": "integer", "format": "uint32", "minimum": 3})");
  EXPECT_TRUE(matches(number, "3"));
  EXPECT_FALSE(matches(number, "2"));
  const Grammar any = Grammar::json_schema(R"({"format": "int64", "x-a": {"type": 5}})");
  EXPECT_TRUE(matches(any, "3"));
  EXPECT_TRUE(matches(any, "\"a\""));
  // What is not known may still be referred to.
  const Grammar within = Grammar::json_schema(
      R"({"$ref": "#/components/schemas/a", "components": {"schemas": {"a": {"type": "boolean"}}}})");
  EXPECT_TRUE(matches(within, "true"));
  EXPECT_FALSE(matches(within, "1"));
}

TEST(SchemaCheck, ConstraintsMayBeIgnored) {
  const auto lax = [](const char* schema) {
    return Grammar::json_schema(schema, "r", UnsupportedKeywords::ignored);
  };
  EXPECT_THAT(lax(R"({"type": "integer", "multipleOf": 5, "not": {"const": 7}})").notes(),
              testing::ElementsAre("r: #/multipleOf: \"multipleOf\" is not enforced",
                                   "r: #/not: \"not\" is not enforced"));
  const Grammar text = lax(R"({"type": "string", "pattern": "(?=a)b", "maxLength": 2})");
  EXPECT_TRUE(matches(text, "\"cc\""));
  EXPECT_FALSE(matches(text, "\"ccc\""));
  EXPECT_EQ(text.notes().size(), 1u);
  const Grammar pair =
      lax(R"({"type": "array", "items": [{"type": "integer"}, {"type": "boolean"}], "uniqueItems": true})");
  EXPECT_TRUE(matches(pair, "[1,true]"));
  EXPECT_FALSE(matches(pair, "[true,1]"));
  EXPECT_EQ(pair.notes().size(), 2u);
  const Grammar either = lax(R"({"oneOf": [{"type": "string"}, {"maxLength": 3}]})");
  EXPECT_TRUE(matches(either, "\"abcd\""));
  EXPECT_THAT(either.notes(), testing::ElementsAre("r: #/oneOf: \"oneOf\" is not enforced"));
  const Grammar listed = lax(R"({"enum": ["xx", "y"], "maxLength": 1})");
  EXPECT_TRUE(matches(listed, "\"y\""));
  EXPECT_EQ(listed.notes().size(), 1u);
  EXPECT_TRUE(matches(lax(R"({"type": "object", "properties": {"a": {"$id": "x", "type": "null"}}})"),
                      "{\"a\":null}"));
  EXPECT_ERROR(lax(R"({"type": "text"})"), "r: #/type: expected array");
  EXPECT_ERROR(lax(R"({"$ref": "other.json"})"), "r: #/$ref: expected a reference");
}

TEST(SchemaCheck, ExclusiveBranches) {
  const Json root = Json::parse(R"({"$defs": {
      "cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
      "dog": {"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}, "required": ["kind"]},
      "maybe": {"type": "object", "properties": {"kind": {"const": "maybe"}}},
      "x": {"type": "object", "properties": {"x": {}, "z": {}}, "required": ["x"]},
      "y": {"type": "object", "properties": {"y": {}, "z": {}}, "required": ["y"]},
      "more": {"$ref": "#/$defs/y", "properties": {"x": {}}},
      "open": {"type": "object", "properties": {"y": {}}, "required": ["y"], "additionalProperties": true}}})");
  const auto exclusive = [&](const char* one, const char* other) {
    std::size_t steps = 0;
    return grammar::exclude_each_other(root, {{"$ref", std::string("#/$defs/") + one}},
                                       {{"$ref", std::string("#/$defs/") + other}}, steps);
  };
  EXPECT_TRUE(exclusive("cat", "dog"));
  EXPECT_FALSE(exclusive("cat", "cat"));
  EXPECT_FALSE(exclusive("cat", "maybe"));
  EXPECT_FALSE(exclusive("x", "more"));
  EXPECT_TRUE(exclusive("x", "y"));
  EXPECT_FALSE(exclusive("x", "open"));
}

/// `references` definitions, each of which refers to the next within `depth` nested schemas of items.
std::string chain(int references, int depth) {
  std::string schema = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < references; ++i) {
    if (i > 0) schema += ", ";
    schema += "\"d" + std::to_string(i) + "\": ";
    for (int j = 0; j < depth; ++j) schema += "{\"items\": ";
    schema += i + 1 < references ? "{\"$ref\": \"#/$defs/d" + std::to_string(i + 1) + "\"}"
                                 : "{\"type\": \"null\"}";
    schema += std::string(static_cast<std::size_t>(depth), '}');
  }
  return schema + "}}";
}

TEST(SchemaCheck, CountsReferencesAndNestingTogether) {
  on_small_stack([] {
    EXPECT_ERROR(Grammar::json_schema(chain(100, 4), "r"), "no error");
    EXPECT_ERROR(Grammar::json_schema(chain(15, 60), "r"), "no error");
    EXPECT_ERROR(Grammar::json_schema(chain(900, 0), "r"), "no error");
    EXPECT_ERROR(Grammar::json_schema(chain(199, 60), "r"), "expected references that are less deep");
    EXPECT_ERROR(Grammar::json_schema(chain(5000, 0), "r"), "expected references that are less deep");
  });
}

// What else recurses, at the depth that its own limit or that of JSON allows.
TEST(SchemaCheck, FitsASmallStack) {
  const auto nested = [](const std::string& open, const std::string& inside, const std::string& close,
                         int times) {
    std::string all = inside;
    for (int i = 0; i < times; ++i) all = open + all + close;
    return all;
  };
  on_small_stack([&] {
    for (const int depth : {20, 60}) {
      SCOPED_TRACE(depth);
      for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{
               {R"({"items": )", "}"},
               {R"({"properties": {"a": )", "}}"},
               {R"({"allOf": [)", R"(, {"minLength": 1}]})"},
               {R"({"anyOf": [)", R"(, {"type": "null"}], "nullable": true})"},
               {R"({"oneOf": [)", R"(, {"type": "null"}]})"},
               {R"({"prefixItems": [)", R"(], "items": false})"},
               {R"({"additionalProperties": )", "}"}}) {
        const bool is_double = open.find('[') != open.npos || open.find("{\"a") != open.npos;
        const std::string schema = nested(open, R"({"type": "string"})", close, depth / (is_double ? 2 : 1));
        error_of([&] { Grammar::json_schema(schema, "r"); });
      }
      EXPECT_ERROR(Grammar::json_schema("{\"const\": " + nested("[", "1", "]", depth) + "}", "r"),
                   "no error");
      EXPECT_ERROR(Grammar::json_schema("{\"enum\": [" + nested("{\"a\": ", "1", "}", depth) + "]}", "r"),
                   "no error");
    }
    std::string references = R"({"$ref": "#/$defs/d0", "minLength": 1, "$defs": {)";
    for (int i = 0; i < 98; ++i)
      references += "\"d" + std::to_string(i) + R"(": {"maxLength": 9, "$ref": "#/$defs/d)" +
                    std::to_string(i + 1) + "\"}, ";
    EXPECT_ERROR(Grammar::json_schema(references + R"("d98": {"type": "string"}}})", "r"), "no error");
    std::string deeper = references;
    for (int i = 98; i < 300; ++i)
      deeper += "\"d" + std::to_string(i) + R"(": {"maxLength": 9, "$ref": "#/$defs/d)" +
                std::to_string(i + 1) + "\"}, ";
    EXPECT_ERROR(Grammar::json_schema(deeper + R"("d300": {"type": "string"}}})", "r"),
                 "references and allOf that end");
    EXPECT_ERROR(Grammar::regex(nested("(a|b*", "c", ")*", 64), "r"), "no error");
    EXPECT_ERROR(Grammar::regex(nested("(?:", "c", "){1,2}", 12), "r"), "no error");
    EXPECT_ERROR(Grammar::regex(nested("(", "c", ")", 65), "r"), "expected a regular expression of");
    EXPECT_ERROR(Grammar::regex(nested("(", "c", ")", 50'000), "r"), "expected a regular expression of");
    GrammarMatcher matcher(Grammar::json_object("r"));  // whose stack of rules is on the heap
    EXPECT_TRUE(matcher.accept("{\"a\": " + nested("[", "", "]", 100'000)));
  });
}

}  // namespace
}  // namespace heed
