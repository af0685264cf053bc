// CallRules: calls of functions in a network, in each syntax in which models write them.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"
#include "grammar/schema_rules.h"
#include "heed/grammar/grammar.h"

namespace heed::grammar {

class CallRules {
 public:
  /// Everything must outlive this.
  CallRules(const JsonRules& json, const ToolCallMarks& marks, UnsupportedKeywords unsupported,
            std::vector<std::string>& notes)
      : json_(json), network_(json.network), marks_(marks), unsupported_(unsupported), notes_(notes) {}
  /// Adds calls of `tools`, or of `only` if it is not empty, after `from`, and returns the state after them.
  State add(State from, const JsonField& tools, std::string_view only);

 private:
  /// Adds a mark, in which special tokens are tokens.
  State add_mark(State from, std::string_view mark) const;
  State add_call(State from, const JsonField& function, const std::string& where);
  State add_object(State from, const std::string& name, Rule arguments) const;
  State add_tags(State from, const std::string& name, SchemaRules& rules, const SchemaPart& part);
  State add_python(State from, const std::string& name, SchemaRules& rules, const SchemaPart& part);
  State add_unquoted(State from, SchemaRules& rules, const std::string& name, const Json& schema);
  /// Any text up to the end of its parameter, which is added, too.
  State add_text_of_parameter(State from) const;

  const JsonRules& json_;
  Network& network_;
  const ToolCallMarks& marks_;
  const UnsupportedKeywords unsupported_;
  std::vector<std::string>& notes_;
  std::deque<Json> schemas_;
};

}  // namespace heed::grammar
