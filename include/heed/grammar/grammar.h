// Grammars: the texts that an answer may be, from a JSON Schema, a regular expression or a list. Matching is
// incremental, so that a search can be kept to them token by token (heed/grammar/token_constraint.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heed/export.h"

namespace HEED_API heed {

namespace grammar {
class Machine;
class Network;
}  // namespace grammar

/// How a model writes a call of a function: `begin`, a JSON object with name and arguments, `end`. The
/// default is that of Hermes and Qwen.
struct ToolCallMarks {
  std::string begin = "<tool_call>\n";
  std::string end = "\n</tool_call>";
  std::string arguments_key = "arguments";  ///< Llama 3: parameters
};

/// A set of texts in UTF-8. Cheap to copy. Threads: several may use one object at once.
///
/// JSON is written as RFC 8259 says, with bounds on white space: between brackets, members and elements,
/// after a colon and before all, there may be one space, or a line end with up to 32 spaces and tabs; numbers
/// have at most 100 digits before the point, 100 after it and 2 in the exponent, so that none overflows a
/// double.
class Grammar {
 public:
  /// The values that a JSON Schema of at most 256 KiB matches, as far as these rules allow
  /// (docs/structured.md): an object has its properties in the order of the schema, then those that
  /// `required` names alone, then others. Others are allowed if additionalProperties says so or if there are
  /// no properties. Without `type`, the other keywords decide which types match. A string that is limited
  /// (enum, const, pattern, format, names of properties) has its characters in the shortest form. A number
  /// that is limited has no exponent, an integer no point.
  ///
  /// Throws Error `WHERE: #/properties/a/KEY: expected X, got Y` if the schema has a keyword that is not
  /// supported, a wrong one, or needs too much; and if it matches no value.
  static Grammar json_schema(std::string_view schema, std::string where = "response_format");
  /// Any JSON object.
  static Grammar json_object(std::string where = "response_format");
  /// The texts that match a regular expression as a whole. Throws Error if it has something else than
  /// characters, `.`, classes, `\d \w \s`, groups, alternatives, quantifiers, and ^ and $ at its ends.
  static Grammar regex(std::string_view pattern, std::string where = "guided_regex");
  /// One of the texts. Throws Error if there is none, or if one is not UTF-8 or is empty.
  static Grammar choices(std::span<const std::string> texts, std::string where = "guided_choice");
  /// One call of one of the functions of `tools`, OpenAI's JSON array of `{"type": "function", "function":
  /// {"name": ..., "parameters": SCHEMA}}`; of the function `only` if that is not empty. Throws Error if
  /// there is no such function, and as json_schema().
  static Grammar tool_calls(std::string_view tools, const ToolCallMarks& marks = {},
                            std::string_view only = {}, std::string where = "tools");

  /// What its errors begin with.
  const std::string& where() const { return where_; }
  const std::shared_ptr<const grammar::Network>& network() const { return network_; }

 private:
  Grammar(std::shared_ptr<const grammar::Network> network, std::string where);

  std::shared_ptr<const grammar::Network> network_;
  std::string where_;
};

/// Reads a text piece by piece. Copies are cheap, and go on independently. Threads: a matcher and its copies,
/// one at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(const Grammar& grammar);
  /// Reads more bytes, which may end within a character. Returns false, from then on, if no text of the
  /// grammar begins like this. Throws Error if there are more than 20,000 ways through the grammar.
  bool accept(std::string_view bytes);
  /// Whether what was read is a text of the grammar.
  bool may_end() const;
  /// Whether it is, and no longer text begins with it.
  bool must_end() const;

 private:
  std::shared_ptr<grammar::Machine> machine_;
  std::string where_;
  std::uint32_t place_;
};

}  // namespace heed
