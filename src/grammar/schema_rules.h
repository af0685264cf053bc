// SchemaRules: the rules of a network that match what a JSON Schema matches.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_rules.h"
#include "grammar/schema_parts.h"

namespace heed::grammar {

class SchemaRules {
 public:
  /// Checks `root`. Throws Error `WHERE: POINTER: expected X, got Y` if it says something that is not
  /// supported. Everything must outlive this.
  SchemaRules(const JsonRules& json, const Json& root, const std::string& where);
  /// Adds the rule of the whole schema and those it needs. Throws Error as the constructor.
  Rule add();
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
  void add_values(const Ends& ends, const SchemaPart& part);
  void add_number(const Ends& ends, const SchemaPart& part);
  void add_string(const Ends& ends, const SchemaPart& part);
  void add_array(const Ends& ends, const SchemaPart& part, const std::string& pointer);
  void add_object(const Ends& ends, const SchemaPart& part, const std::string& pointer);

  const JsonRules& json_;
  Network& network_;
  const Json& root_;
  const std::string& where_;
  std::map<std::string, Rule> rules_;  // by the schema's text
  std::deque<Pending> pending_;
  std::vector<std::pair<Rule, std::string>> pointers_;  // of all rules that were added
  std::size_t work_ = 0;                                // of parts_of()
};

}  // namespace heed::grammar
