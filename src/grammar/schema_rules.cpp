// Writes the rules of a schema into a network, one rule for each distinct schema.
#include "grammar/schema_rules.h"

#include <algorithm>
#include <set>

#include "grammar/char_automaton.h"
#include "grammar/schema_parts.h"
#include "heed/error.h"

namespace heed::grammar {

SchemaRules::SchemaRules(const JsonRules& json, const Json& root, const std::string& where,
                         UnsupportedKeywords unsupported, std::vector<std::string>& notes)
    : json_(json),
      network_(json.network),
      root_(root),
      where_(where),
      unsupported_(unsupported),
      notes_(notes) {
  check_schema(root, where, unsupported, notes, ignored_);
}

Rule SchemaRules::add(const Json& schema, const std::string& at) {
  const Rule rule = rule_of(schema, at);
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    pointers_.emplace_back(next.rule, next.pointer);
    try {
      add_alternatives({network_.start(next.rule), network_.end(next.rule)}, next.schema, next.pointer);
    } catch (const GrammarError& error) {
      throw Error(where_ + ": " + next.pointer + ": " + error.what());
    }
  }
  return rule;
}

void SchemaRules::require_texts(Rule rule) const {
  if (network_.rules_with_texts(false)[rule]) return;
  const std::vector<bool> alone = network_.rules_with_texts(true);
  const auto empty = std::find_if(pointers_.begin(), pointers_.end(),
                                  [&](const auto& added) { return !alone[added.first]; });
  throw Error(where_ + ": " + (empty == pointers_.end() ? "#" : empty->second) +
              ": expected a schema that some value matches, got one that none does");
}

Rule SchemaRules::rule_of(const Json& given, const std::string& pointer) {
  Json schema = without_annotations(given);
  if (schema == Json(true) || schema == Json::object()) return json_.value;
  const auto [found, added] = rules_.try_emplace(json_text(schema), 0);
  if (added) {
    found->second = network_.add_rule();
    pending_.push_back({found->second, std::move(schema), pointer});
  }
  return found->second;
}

void SchemaRules::add_alternatives(const Ends& ends, const Json& schema, const std::string& pointer) {
  const bool alone = schema.is_object() && schema.size() == 1;
  if (alone && schema.contains("$ref")) {
    const std::string& name = schema["$ref"].get_ref<const std::string&>();
    network_.add_call(ends.start, rule_of(*referenced(root_, name), name), ends.end);
    return;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!alone || !schema.contains(key)) continue;
    for (std::size_t i = 0; i < schema[key].size(); ++i) {
      const std::string branch = pointer_to(pointer, key) + "/" + std::to_string(i);
      network_.add_call(ends.start, rule_of(schema[key][i], branch), ends.end);
    }
    return;
  }
  for (const SchemaPart& part : parts_of(root_, schema, work_)) add_part(ends, part, pointer);
}

void SchemaRules::add_part(const Ends& ends, const SchemaPart& part, const std::string& pointer) {
  const unsigned types = part.allowed();
  if (part.values) return add_values(ends, part, pointer);
  const auto add_word = [&](const Json& value) {
    network_.add_free(json_.add_value(ends.start, value), ends.end);
  };
  if ((types & kNullType) != 0) add_word(nullptr);
  if ((types & kBooleanType) != 0) add_word(true), add_word(false);
  if ((types & kIntegerType) != 0) add_number(ends, part);
  if ((types & kStringType) != 0) add_string(ends, part, pointer);
  if ((types & kArrayType) != 0) add_array(ends, part, pointer);
  if ((types & kObjectType) != 0) add_object(ends, part, pointer);
}

void SchemaRules::add_values(const Ends& ends, const SchemaPart& part, const std::string& pointer) {
  if (part.mentioned != 0) {
    if (unsupported_ == UnsupportedKeywords::refused)
      throw GrammarError(
          "expected enum and const without other keywords than type, got some (list only the values that "
          "match)");
    notes_.push_back(where_ + ": " + pointer + ": what stands beside enum and const is not enforced");
  }
  for (const Json& value : *part.values) {
    if ((type_of(value) & part.types) != 0) network_.add_free(json_.add_value(ends.start, value), ends.end);
  }
}

void SchemaRules::add_number(const Ends& ends, const SchemaPart& part) {
  const bool integers = (part.allowed() & kFractionType) == 0;
  std::optional<CharAutomaton> texts;
  const auto limit = [&](const std::optional<NumberBound>& lower, const std::optional<NumberBound>& upper) {
    CharAutomaton limited = numbers_between(lower, upper, integers);
    texts = texts ? intersection(*texts, limited) : std::move(limited);
  };
  for (const NumberBound& bound : part.lower) limit(bound, std::nullopt);
  for (const NumberBound& bound : part.upper) limit(std::nullopt, bound);
  if (texts) {
    network_.add_free(json_.add_raw(ends.start, *texts), ends.end);
  } else {
    network_.add_call(ends.start, integers ? json_.integer : json_.number, ends.end);
  }
}

std::optional<CharAutomaton> SchemaRules::limited_texts(const SchemaPart& part,
                                                        const std::string& pointer) const {
  std::optional<CharAutomaton> texts;
  const auto limit = [&](CharAutomaton limited) {
    texts = texts ? intersection(*texts, limited) : std::move(limited);
  };
  for (const std::string& pattern : part.patterns) {
    if (ignored_.count(pattern) == 0) limit(regex_texts(pattern, false));
  }
  if (part.least_length > 0 || part.most_length) limit(texts_of_length(part.least_length, part.most_length));
  for (const std::string& format : part.formats) {
    try {
      limit(*format_texts(format));
    } catch (const GrammarError&) {  // too large with a length: JSON Schema lets formats be annotations
      notes_.push_back(where_ + ": " + pointer + ": the format " + json_quoted(format) +
                       " is not enforced beside so long a length");
    }
  }
  return texts;
}

void SchemaRules::add_string(const Ends& ends, const SchemaPart& part, const std::string& pointer) {
  if (const auto texts = limited_texts(part, pointer)) {
    network_.add_free(json_.add_string(ends.start, *texts), ends.end);
  } else {
    network_.add_call(ends.start, json_.string, ends.end);
  }
}

void SchemaRules::add_array(const Ends& ends, const SchemaPart& part, const std::string& pointer) {
  if (part.least_items == 0 && !part.most_items && part.prefix.empty() && !part.items)
    return network_.add_call(ends.start, json_.array, ends.end);
  const std::string of_items = pointer_to(pointer, "items");
  const Rule rest = part.items ? rule_of(*part.items, of_items) : json_.value;
  const auto element = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return at < part.prefix.size()
               ? rule_of(part.prefix[at], pointer_to(pointer, "prefixItems") + "/" + std::to_string(i))
               : rest;
  };
  const State first = json_.add_space(network_.add_text(ends.start, "["));
  if (part.least_items == 0) network_.add_bytes(first, ']', ']', ends.end);
  const auto counted = std::max(part.least_items, static_cast<std::int64_t>(part.prefix.size()));
  State before = network_.add_state();
  network_.add_free(first, before);
  for (std::int64_t count = 0; !part.most_items || count < *part.most_items;) {
    const State after = json_.add(before, element(count));
    ++count;
    if (count >= part.least_items) network_.add_bytes(json_.add_space(after), ']', ']', ends.end);
    const State next = json_.add_space(network_.add_text(after, ","));
    if (!part.most_items && count > counted) {
      network_.add_free(next, before);
      break;
    }
    before = network_.add_state();
    network_.add_free(next, before);
  }
}

void SchemaRules::add_object(const Ends& ends, const SchemaPart& part, const std::string& pointer) {
  if (part.properties.empty() && part.required.empty() &&
      (!part.additional || *part.additional == Json(true)))
    return network_.add_call(ends.start, json_.object, ends.end);
  const Json others = part.additional.value_or(part.properties.empty());
  std::vector<std::pair<std::string, Json>> properties = part.properties;
  std::set<std::string> names;
  for (const auto& [name, schema] : properties) names.insert(name);
  const std::set<std::string> required(part.required.begin(), part.required.end());
  for (const std::string& name : part.required) {
    if (names.insert(name).second) properties.emplace_back(name, part.additional.value_or(true));
  }
  // Two states before each property: where no member has been written yet, and after one.
  State none = json_.add_space(network_.add_text(ends.start, "{")), some = network_.add_state();
  const auto value_after = [&](State name, Rule rule, State to) {
    network_.add_call(json_.add_space(network_.add_text(name, ":")), rule, to);
  };
  const auto add_member = [&](State member) {
    network_.add_free(none, member);
    network_.add_free(json_.add_space(network_.add_text(some, ",")), member);
  };
  const std::string of_properties = pointer_to(pointer, "properties"),
                    of_others = pointer_to(pointer, "additionalProperties");
  std::size_t count = 0;
  for (const auto& [name, schema] : properties) {
    const std::string place = count++ < part.properties.size() ? pointer_to(of_properties, name) : of_others;
    const State member = network_.add_state(), next_none = network_.add_state(),
                next_some = network_.add_state();
    add_member(member);
    value_after(json_.add_string(member, name), rule_of(schema, place), next_some);
    if (required.count(name) == 0) {
      network_.add_free(none, next_none);
      network_.add_free(some, next_some);
    }
    none = next_none;
    some = next_some;
  }
  if (others != Json(false)) {
    const State member = network_.add_state();
    add_member(member);
    value_after(json_.add_string(member, texts_other_than({names.begin(), names.end()})),
                rule_of(others, of_others), some);
  }
  network_.add_bytes(none, '}', '}', ends.end);
  network_.add_bytes(json_.add_space(some), '}', '}', ends.end);
}

}  // namespace heed::grammar
