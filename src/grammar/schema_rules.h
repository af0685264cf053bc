// JsonRules: the rules of JSON (RFC 8259) in a network: any value, and pieces that rules of schemas are made
// of. SchemaRules: the rules of a network that match what a JSON Schema matches.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "grammar/network.h"
#include "grammar/schema_parts.h"

namespace heed::grammar {

/// How JSON is written: white space may be nothing, one space, or one line end and up to 32 spaces and tabs,
/// between brackets, members and elements and after a colon. Escapes of surrogates only occur in pairs.
/// Numbers have at most 100 digits before a point, 100 after it and 2 in the exponent, so that every double
/// can hold them.
struct JsonRules {
  /// Adds the rules to `network`, which must outlive this. `python`: with Python's words for null and
  /// booleans.
  explicit JsonRules(Network& network, bool python = false);

  Network& network;
  const bool python;
  Rule space, character, string, number, integer, value, object, array;

  /// Each adds something after `from`, and returns the state after it.
  State add_space(State from) const { return add(from, space); }
  State add(State from, Rule rule) const;
  /// A string with characters in their shortest form.
  State add_string(State from, std::string_view text) const;
  /// A given value.
  State add_value(State from, const Json& value) const;
  /// A string of the texts, in quotes. Where a character may be any, every escape of it is accepted;
  /// otherwise characters are in their shortest form.
  State add_string(State from, const CharAutomaton& texts) const;
  /// The texts as they are.
  State add_raw(State from, const CharAutomaton& texts) const;

 private:
  std::string word(const Json& value) const;
  template <class AddEdge>
  State add_texts(State from, const CharAutomaton& texts, const AddEdge& add_edge) const;
  /// Characters of a string in their shortest form.
  void add_escaped(State from, char32_t first, char32_t last, State to) const;
};

class SchemaRules {
 public:
  /// Checks `root`, as check_schema() does. Everything must outlive this.
  SchemaRules(const JsonRules& json, const Json& root, const std::string& where,
              UnsupportedKeywords unsupported, std::vector<std::string>& notes);
  /// Adds the rule of the whole schema and those it needs. Throws Error as the constructor.
  Rule add() { return add(root_, "#"); }
  /// The same of a part of it.
  Rule add(const Json& schema, const std::string& pointer);
  /// The parts of a part of it.
  std::vector<SchemaPart> parts(const Json& schema) { return parts_of(root_, schema, work_); }
  /// The texts of a string without its quotes; nothing if any will do.
  std::optional<CharAutomaton> limited_texts(const SchemaPart& part, const std::string& pointer) const;
  /// Throws Error `WHERE: POINTER: …` if the rule of the whole schema, which has been added, has no text.
  /// POINTER is the first schema that has none whatever its parts have.
  void require_texts(Rule rule) const;

 private:
  struct Pending {
    Rule rule;
    Json schema;
    std::string pointer;
  };
  struct Ends {
    State start, end;
  };
  /// Returns the rule of a schema; what it consists of is added later.
  Rule rule_of(const Json& schema, const std::string& pointer);
  void add_alternatives(const Ends& ends, const Json& schema, const std::string& pointer);
  void add_part(const Ends& ends, const SchemaPart& part, const std::string& pointer);
  void add_values(const Ends& ends, const SchemaPart& part, const std::string& pointer);
  void add_number(const Ends& ends, const SchemaPart& part);
  void add_string(const Ends& ends, const SchemaPart& part, const std::string& pointer);
  void add_array(const Ends& ends, const SchemaPart& part, const std::string& pointer);
  void add_object(const Ends& ends, const SchemaPart& part, const std::string& pointer);

  const JsonRules& json_;
  Network& network_;
  const Json& root_;
  const std::string& where_;
  const UnsupportedKeywords unsupported_;
  std::vector<std::string>& notes_;
  std::set<std::string> ignored_;      // patterns
  std::map<std::string, Rule> rules_;  // by the schema's text
  std::deque<Pending> pending_;
  std::vector<std::pair<Rule, std::string>> pointers_;  // of all rules that were added
  std::size_t work_ = 0;                                // of parts_of()
};

}  // namespace heed::grammar
