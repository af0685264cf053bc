#include "heed/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json_field.h"
#include "heed/core/utf8.h"
#include "reference/error.h"
#include "reference/small_stack.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config parse(const std::string& text) { return Config::parse(text, "config.json"); }
std::string parse_error(const std::string& text) {
  return error_of([&] { parse(text); });
}

TEST(Config, ReadsEveryKindOfValue) {
  const Config config = parse(R"({"i": 512, "n": -1e-5, "whole": 3, "t": true, "s": "é\u00e9\ud83d\ude00\n",
    "null": null, "ids": [2, -3], "one": 7, "words": ["a", "b"], "betas": [0.5, 1], "empty": []})");
  EXPECT_EQ(config.required_integer("i"), 512);
  EXPECT_EQ(config.integer("absent", 4), 4);
  EXPECT_EQ(config.positive_integer("i", 1), 512);
  EXPECT_EQ(Config::parse(R"({"whole": 16.0})", "c").positive_integer("whole", 1), 16);
  EXPECT_THAT(Config::parse(R"({"whole": [-2.0, 1e3]})", "c").integers("whole"), ElementsAre(-2, 1000));
  EXPECT_EQ(config.number("n", 0), -1e-5);
  EXPECT_EQ(config.required_number("whole"), 3.0);
  EXPECT_TRUE(config.boolean("t", false));
  EXPECT_EQ(config.required_string("s"), "\xC3\xA9\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_EQ(config.string("absent", "x"), "x");
  EXPECT_EQ(config.optional_integer("null"), std::nullopt);
  EXPECT_EQ(config.boolean("null", true), true);
  EXPECT_FALSE(config.has("null"));
  EXPECT_TRUE(config.has("i"));
  EXPECT_THAT(config.integers("ids"), ElementsAre(2, -3));
  EXPECT_THAT(config.integers("one"), ElementsAre(7));
  EXPECT_THAT(config.integers("empty"), IsEmpty());
  EXPECT_THAT(config.integers("absent"), IsEmpty());
  EXPECT_THAT(config.strings("words"), ElementsAre("a", "b"));
  EXPECT_THAT(config.numbers("betas"), ElementsAre(0.5, 1.0));
  EXPECT_THAT(config.unused(), IsEmpty());
}

TEST(Config, AccountsForEveryKey) {
  const Config config = parse(R"({"z": 1, "rope": {"type": "x", "factor": 2, "deep": {"a": 1, "b": 2}},
    "ignored": {"a": 1}, "list": [[1, 2], "x"], "a": null})");
  EXPECT_THAT(config.unused(), ElementsAre("z", "rope", "ignored", "list"));  // a null value counts as absent
  config.ignore({"ignored", "not there"});
  EXPECT_EQ(config.sub("rope").required_string("type"), "x");
  EXPECT_EQ(config.sub("rope").sub("deep").required_integer("a"), 1);
  EXPECT_EQ(config.optional_string("a"), std::nullopt);
  EXPECT_THAT(config.sub("list").integers("0"), ElementsAre(1, 2));
  EXPECT_THAT(config.unused(), ElementsAre("z", "rope.factor", "rope.deep.b", "list.1"));
  EXPECT_THAT(config.sub("rope").unused(), ElementsAre("rope.factor", "rope.deep.b"));
  EXPECT_EQ(config.integer("absent", 3), 3);
  EXPECT_THAT(config.asked(), ElementsAre("a", "absent", "list", "list.0", "list.0.0", "list.0.1", "rope",
                                          "rope.deep", "rope.deep.a", "rope.type"));
  EXPECT_THAT(config.sub("list").names(), ElementsAre("0", "1"));
  EXPECT_THAT(config.names(), ElementsAre("z", "rope", "ignored", "list", "a"));
}

TEST(Config, SaysWhichKeyIsWrongAndHow) {
  const Config config = parse(
      R"({"s": "abc", "f": 1.5, "big": 9223372036854775808, "neg": 0, "large": 1073741825, "t": true,
    "list": [1, "x"], "o": {"n": [true]}})");
  const auto message = [&](auto read) { return error_of([&] { read(config); }); };
  EXPECT_EQ(message([](const Config& c) { c.integer("s", 1); }),
            "config.json: s: expected an integer, got \"abc\"");
  EXPECT_EQ(message([](const Config& c) { c.integer("f", 1); }),
            "config.json: f: expected an integer, got 1.5");
  EXPECT_EQ(message([](const Config& c) { c.integer("t", 1); }),
            "config.json: t: expected an integer, got true");
  EXPECT_EQ(message([](const Config& c) { c.required_integer("none"); }),
            "config.json: none: expected an integer, got nothing");
  EXPECT_EQ(message([](const Config& c) { c.integer("big", 1); }),
            "config.json: big: expected an integer that fits 64 bits, got 9223372036854775808");
  EXPECT_EQ(message([](const Config& c) { c.positive_integer("neg", 1); }),
            "config.json: neg: expected an integer of at least 1, got 0");
  EXPECT_EQ(message([](const Config& c) { c.positive_integer("large", 1); }),
            "config.json: large: expected an integer of at most 1073741824, got 1073741825");
  EXPECT_THAT(message([](const Config& c) { c.number("s", 1); }), HasSubstr("s: expected a number"));
  EXPECT_THAT(message([](const Config& c) { c.boolean("neg", true); }),
              HasSubstr("expected true or false, got 0"));
  EXPECT_THAT(message([](const Config& c) { c.required_string("f"); }),
              HasSubstr("expected a string, got 1.5"));
  EXPECT_THAT(message([](const Config& c) { c.integers("list"); }),
              HasSubstr("list.1: expected an integer, got \"x\""));
  EXPECT_THAT(message([](const Config& c) { c.sub("o").numbers("n"); }),
              HasSubstr("o.n.0: expected a number"));
  EXPECT_THAT(message([](const Config& c) { c.sub("s"); }), HasSubstr("expected an object or an array"));
  EXPECT_THAT(message([](const Config& c) { c.strings("o"); }),
              HasSubstr("an array of strings, got an object"));
}

TEST(Config, RefusesWhatIsNotStrictJson) {
  EXPECT_THAT(parse_error(R"({"a": 1, "a": 2})"),
              HasSubstr("expected every key once, got \"a\" twice (line 1"));
  EXPECT_THAT(parse_error(R"({"b": {"a": 1, "a": 2}})"), HasSubstr("\"a\" twice"));
  EXPECT_THAT(parse_error("{\n  // note\n}"), HasSubstr("a key in quotes, got \"/\" (line 2, column 3)"));
  EXPECT_THAT(parse_error("{\"a\": 1,}"), HasSubstr("a key in quotes"));
  EXPECT_THAT(parse_error("[1]"), HasSubstr("expected an object"));
  EXPECT_THAT(parse_error(""), HasSubstr("the end of the text"));
  EXPECT_THAT(parse_error("{} x"), HasSubstr("the end of the text"));
  EXPECT_THAT(parse_error("{\"a\": \"\x1f\"}"), HasSubstr("the closing quote"));
  EXPECT_THAT(parse_error("{\"a\": NaN}"), HasSubstr("expected a value"));
  EXPECT_THAT(parse_error("{\"a\": \"\xff\"}"), HasSubstr("expected UTF-8"));
  EXPECT_THAT(parse_error("{\xEF\xBB\xBF}"), HasSubstr("got byte 239"));
  EXPECT_THAT(parse_error("{\"a\": 1e999}"),
              HasSubstr("expected a number that fits a double, got 1e999 (line 1"));
  EXPECT_THAT(parse_error("{\"a\": " + std::string(100000, '[')), HasSubstr("nesting of at most 64"));
  on_small_stack([] {  // read, looked through, copied, printed and freed
    const std::string deepest = "{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}";
    const Config config = Config::parse(deepest, "x");
    EXPECT_EQ(config.unused().size(), 1u);
    EXPECT_EQ(parse_json(config.with("{}").text(), "x"), parse_json(deepest, "x"));
  });
  EXPECT_EQ(parse_error("{\"a\": " + std::string(63, '[') + std::string(63, ']') + "}"), "no error");
}

TEST(Config, IsWrittenAgainWithOneStringReplaced) {
  const std::string text = R"({"a": 1e-05, "dtype": "float16", "o": {"n": null, "l": [1, "x", true]}})";
  EXPECT_EQ(nlohmann::ordered_json::parse(parse(text).with(R"({"dtype": "float32"})").text()).dump(),
            R"({"a":1e-05,"dtype":"float32","o":{"n":null,"l":[1,"x",true]}})");
  EXPECT_THAT(parse(text).with(R"({"new": "value"})").text(), HasSubstr("\"new\": \"value\""));
  EXPECT_THAT(parse(text).with(R"({"dtype": "float32"})").text(), HasSubstr("1e-05"));
}

TEST(Config, LoadsFilesWithinALimit) {
  const TemporaryFolder folder;
  spill(folder / "config.json", "{\"a\": 1}\n");
  EXPECT_EQ(Config::load(folder / "config.json").required_integer("a"), 1);
  EXPECT_EQ(Config::load(folder / "config.json").where(), (folder / "config.json").string());
  EXPECT_ERROR(Config::load(folder / "none"), "none: not found");
  spill(folder / "long", std::string(9 << 20, ' '));
  EXPECT_ERROR(Config::load(folder / "long"), "at most 8388608 bytes");
}

bool is_read(const std::string& text) {
  return error_of([&] {
           JsonReader reader("text", text);
           reader.skip();
           reader.finish();
         }) == "no error";
}

// nlohmann-json is the oracle: both must accept the same texts.
TEST(JsonReader, AcceptsExactlyJson) {
  const std::string original =
      R"({"a": [1, -2.5e+3, 0, "x\n\u00e9\ud83d\ude00é", true, false, null, {}], "b": {"c": []}})";
  constexpr std::string_view kTokens = "{}[]\",:0123456789-+.eE \\utfn\n\x1f\xc3\xff";
  Choices choices(11);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (std::size_t edits = 1 + choices.below(2); edits > 0; --edits) {
      const std::size_t at = choices.below(text.size());
      switch (choices.below(3)) {
        case 0: text[at] = kTokens[choices.below(kTokens.size())]; break;
        case 1: text.insert(at, 1, kTokens[choices.below(kTokens.size())]); break;
        default: text.erase(at, 1 + choices.below(5)); break;
      }
    }
    bool theirs = true;
    try {
      theirs = !nlohmann::json::parse(text).is_discarded();
    } catch (const nlohmann::json::parse_error&) {
      theirs = false;
    } catch (const nlohmann::json::out_of_range&) {  // valid JSON, but the number overflows a double
    }
    ASSERT_EQ(is_read(text), theirs) << text;
    accepted += theirs ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
}

// Whole or cut off anywhere, a file is read or refused, and as a tree it is what nlohmann-json reads.
TEST(JsonReader, ReadsOrRefusesTheFuzzersFiles) {
  int files = 0, read = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(HEED_FIXTURES "/../../fuzz/corpus")) {
    if (!entry.is_regular_file() || entry.file_size() > 20000) continue;
    ++files;
    const std::string text = slurp(entry.path());
    for (std::size_t part = 1; part <= 40; ++part) {
      const std::string cut = text.substr(0, text.size() * part / 40);
      if (!is_read(cut)) continue;
      Json tree;
      const std::string error = error_of([&] { tree = parse_json(cut, "file", {.repeated_keys = true}); });
      if (error != "no error") {
        EXPECT_THAT(error, HasSubstr("a number that fits a double")) << entry.path();
        continue;
      }
      const auto theirs = Json::parse(cut, nullptr, false);
      ASSERT_FALSE(theirs.is_discarded()) << entry.path();
      const bool no_key_twice = error_of([&] { parse_json(cut, "file"); }) == "no error";
      EXPECT_TRUE(!no_key_twice || tree == theirs) << entry.path();
      ++read;
    }
  }
  EXPECT_GE(files, 240) << "raise this number with the files of fuzz/corpus";
  EXPECT_GT(read, 100);
}

TEST(JsonReader, ReadsMembersAndElementsOneByOne) {
  JsonReader json("file", R"({"skipped": [{"a": []}, "]"], "list": [1, {"b": 2}], "last": null})");
  std::vector<std::string> keys;
  std::vector<Json> elements;
  std::string key;
  for (json.begin_object(); json.next_key(key);) {
    keys.push_back(key);
    if (key != "list") {
      json.skip();
      continue;
    }
    for (json.begin_array(); json.next_element();) elements.push_back(json.value());
  }
  json.finish();
  EXPECT_THAT(keys, ElementsAre("skipped", "list", "last"));
  EXPECT_THAT(elements, ElementsAre(Json(1), Json{{"b", 2}}));
}

// As the tokenizers library reads numbers, which may differ from the nearest double in the last bit.
TEST(ParseJson, RoundsAsAsked) {
  const JsonRules two{.numbers = JsonNumbers::two_roundings};
  for (const char* text : {"0.1", "-12.5e-3", "1e300", "18446744073709551616", "0", "-0.0"}) {
    EXPECT_EQ(parse_json(text, "x").get<double>(), std::strtod(text, nullptr)) << text;
    EXPECT_EQ(parse_json(text, "x", two).get<double>(), std::strtod(text, nullptr)) << text;
  }
  EXPECT_EQ(parse_json("-9.23456789012345678", "x", two).get<double>(), -923456789012345678.0 / 1e17);
  EXPECT_EQ(parse_json("1e999", "x", two).get<double>(), HUGE_VAL);
  EXPECT_EQ(parse_json("-9223372036854775808", "x").get<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(parse_json("18446744073709551615", "x").get<std::uint64_t>(), UINT64_MAX);
}

TEST(JsonField, SaysWhereAndWhat) {
  const Json json =
      Json::parse(R"({"a": {"list": [1, "x", {}]}, "big": 18446744073709551615, "null": null})");
  const JsonField field(json, "file");
  const auto message = [&](auto read) { return error_of([&] { read(field); }); };
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").at("list").at(1).integer(); }),
            "file: a.list.1: expected an integer, got \"x\"");
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").at("list").at(0).integer(2, 3); }),
            "file: a.list.0: expected an integer from 2 to 3, got 1");
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").at("list").string(); }),
            "file: a.list: expected a string, got an array of 3");
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").boolean(); }),
            "file: a: expected true or false, got an object");
  EXPECT_EQ(message([](const JsonField& f) { f.at("big").integer(); }),
            "file: big: expected an integer that fits 64 bits, got 18446744073709551615");
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").at("none"); }), "file: a.none: not found");
  EXPECT_EQ(message([](const JsonField& f) { f.at("null"); }), "file: null: not found");
  EXPECT_EQ(message([](const JsonField& f) { f.at("a").at("list").find("x"); }),
            "file: a.list: expected an object, got an array of 3");
  EXPECT_EQ(message([](const JsonField& f) { f.array_size(); }), "file: expected an array, got an object");
  const Json texts = {"é", "éé", "", std::string(59, 'x') + "é!"};
  EXPECT_EQ(JsonField(texts, "t").at(0).character(), U'é');
  for (const std::size_t i : {1u, 2u})
    EXPECT_ERROR(JsonField(texts, "t").at(i).character(), "expected one character");
  EXPECT_EQ(json_shown(texts[3]), '"' + std::string(59, 'x') + "\"...");
}

struct BadUtf8 {
  std::string_view bytes, repaired;  // with "?" for U+FFFD
};
constexpr BadUtf8 kBadUtf8[] = {
    {"\xFF\xC3y", "??y"},
    {"\xC3", "?"},
    {"\xE2\x82", "?"},
    {"\xE2\x82z", "?z"},
    {"\xF0\x9F\x98", "?"},
    {"\xF0\x9F\x98\xF0\x9F\x98\x80", "?\xF0\x9F\x98\x80"},
    {"\xC0\xAF", "??"},            // overlong
    {"\xE0\x80\xAF", "???"},       // overlong
    {"\xF0\x80\x80\x80", "????"},  // overlong
    {"\xED\xA0\x80", "???"},       // a surrogate
    {"\xF4\x90\x80\x80", "????"},  // past U+10FFFF
    {"\xF5\x80", "??"},
    {"a\x80\xBF"
     "b",
     "a??b"},
    {"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", "a???b?c??d"},  // of the Unicode Standard
};

TEST(Utf8, EveryUserReplacesTheSame) {
  for (const BadUtf8& one : kBadUtf8) {
    std::string repaired;
    for (const char c : one.repaired) repaired += c == '?' ? "\xEF\xBF\xBD" : std::string(1, c);
    std::size_t replaced = 0;
    EXPECT_EQ(replace_invalid_utf8(one.bytes, &replaced), repaired);
    EXPECT_EQ(replaced, static_cast<std::size_t>(std::count(one.repaired.begin(), one.repaired.end(), '?')));
    EXPECT_EQ(JsonWriter().value(one.bytes).text(), '"' + repaired + '"');
    EXPECT_EQ(json_quoted(one.bytes), '"' + repaired + '"');
    EXPECT_EQ(json_text(Json::array({one.bytes})), "[\"" + repaired + "\"]");
    EXPECT_EQ(json_text(nlohmann::json::array({one.bytes})), "[\"" + repaired + "\"]");
    const std::size_t bad = one.bytes.front() == 'a' ? 1 : 0;
    EXPECT_EQ(first_invalid_utf8(one.bytes), bad);
    EXPECT_EQ(error_of([&] { parse_json('"' + std::string(one.bytes) + '"', "x"); }),
              "x: expected UTF-8, got bytes that are not, from byte " + std::to_string(bad + 1));
  }
}

TEST(JsonWriter, WritesWhatOthersRead) {
  JsonWriter json;
  json.begin_object()
      .field("text", "a\"b\\c\n\x01\xC3\xA9")
      .field("broken", std::string("x\xff\xC3y"))
      .field("i", -7)
      .field("u", std::numeric_limits<std::uint64_t>::max())
      .field("yes", true)
      .field("nan", std::nan(""))
      .field("inf", -std::numeric_limits<float>::infinity())
      .field("nothing", nullptr)
      .field("maybe", std::optional<int>())
      .field("list", std::vector<double>{0.1, 2})
      .field("nested", std::vector<std::vector<int>>{{1}, {}})
      .field("map", std::map<std::string, std::string>{{"k", "v"}})
      .key("empty")
      .begin_object()
      .end_object()
      .end_object();
  EXPECT_EQ(
      json.text(),
      "{\"text\": \"a\\\"b\\\\c\\n\\u0001\xC3\xA9\", \"broken\": \"x\xEF\xBF\xBD\xEF\xBF\xBDy\", \"i\": -7, "
      "\"u\": 18446744073709551615, \"yes\": true, \"nan\": null, \"inf\": null, \"nothing\": null, "
      "\"maybe\": null, \"list\": [0.1, 2.0], \"nested\": [[1], []], \"map\": {\"k\": \"v\"}, \"empty\": "
      "{}}");
  EXPECT_TRUE(nlohmann::json::accept(json.text()));
}

TEST(JsonWriter, IndentsAsPythonDoes) {
  JsonWriter json(2);
  json.begin_object()
      .field("a", 1)
      .field("b", std::vector<int>{1, 2})
      .key("c")
      .begin_array()
      .end_array()
      .end_object();
  EXPECT_EQ(json.text(), "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": []\n}");
}

TEST(JsonWriter, NumbersReadBackExactly) {
  Choices choices(3);
  for (int round = 0; round < 20000; ++round) {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | choices.below(256);
    double number;
    std::memcpy(&number, &bits, 8);
    if (!std::isfinite(number)) continue;
    const std::string text = JsonWriter().value(number).text();
    ASSERT_EQ(std::strtod(text.c_str(), nullptr), number) << text;
    const auto narrow = static_cast<float>(choices.below(1 << 24)) * 1e-7f;
    ASSERT_EQ(std::strtof(JsonWriter().value(narrow).text().c_str(), nullptr), narrow);
  }
  EXPECT_EQ(JsonWriter().value(0.1f).text(), "0.1");
  EXPECT_EQ(JsonWriter().value(1e-5).text(), "1e-05");
  EXPECT_EQ(JsonWriter().value(1.0).text(), "1.0");
  EXPECT_EQ(JsonWriter().value(-0.0).text(), "-0.0");
}

}  // namespace
}  // namespace heed
