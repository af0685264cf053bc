// JSON (RFC 8259): text to trees and back. The parser is strict (UTF-8 only, no comments, no trailing commas,
// no NaN, nesting of at most 64), and its errors tell line and column. It is heed's own because
// nlohmann-json's takes 1.5 to 2 times as long for a tokenizer of 250,000 entries, cannot tell repeated keys,
// and rounds numbers in one way only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed {

/// A JSON value; objects keep the order of their members.
using Json = nlohmann::ordered_json;

/// How numbers that are not 64-bit integers become doubles.
enum class JsonNumbers {
  nearest,  ///< the nearest double; one that overflows or underflows is an error
  /// As the tokenizers library reads them: the digits as an integer, times or divided by a power of ten.
  /// Scores that differ in their last bit make another choice among equals.
  two_roundings,
};

struct JsonRules {
  JsonNumbers numbers = JsonNumbers::nearest;
  bool repeated_keys = false;  ///< whether an object may have a key twice; both members are then kept
};

/// Parses one value. Throws Error, starting with `where`, if the text is not JSON or breaks the rules.
Json parse_json(std::string_view text, const std::string& where, const JsonRules& rules = {});

/// Reads the members of objects and the elements of arrays one by one, for files that may be too large to be
/// a tree in memory.
class JsonReader {
 public:
  /// `text` must outlive the reader. Throws Error `where: expected ...` if it is not UTF-8. All functions
  /// below do so if the text is not JSON or not the expected value.
  JsonReader(std::string where, std::string_view text, const JsonRules& rules = {});

  void begin_object();
  /// Reads the next key of the object, or returns false at its end. The caller must check for repeated keys.
  bool next_key(std::string& key);
  void begin_array();
  /// Advances to the next element of the array, or returns false at its end.
  bool next_element();
  /// Reads one value of any kind.
  Json value();
  /// Skips one value of any kind.
  void skip();
  /// Checks that only white space is left.
  void finish();

  /// Throws `where: expected EXPECTED, got GOT (line L, column C)` for the position last read.
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const;

 private:
  enum class Kind { null, boolean, number, string, array, object };
  Kind peek();
  Json object();
  Json number();
  std::string string();
  std::string_view number_text();
  bool boolean();
  void null();
  void skip_space();
  [[noreturn]] void fail_here(std::string_view expected) const;
  void expect(char c, std::string_view expected);
  void literal(std::string_view word);
  void enter(char c, std::string_view expected);
  bool leave(char c, std::string_view expected);
  void escape(std::string& out);
  char32_t hex4();

  std::string where_;
  std::string_view text_;
  JsonRules rules_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool first_ = false;  // nothing of the innermost object or array has been read yet
};

/// Returns the text of a tree: one line, or with `indent` spaces a level. Bytes that are not UTF-8 become
/// U+FFFD.
std::string json_text(const Json& value, int indent = -1);
std::string json_text(const nlohmann::json& value, int indent = -1);
/// Returns a text in quotes, with escapes.
std::string json_quoted(std::string_view text);
/// Returns a value as messages show it: `"abc"`, `1.5`, `an array of 3`, `an object`; long texts are cut.
std::string json_shown(const Json& value);

}  // namespace heed
