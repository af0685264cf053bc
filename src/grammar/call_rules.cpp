// Names and arguments between the marks of a format.
#include "grammar/call_rules.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/strings.h"

namespace heed::grammar {
namespace {

constexpr std::string_view kEndOfParameter = "\n</parameter>";

/// The schema of the arguments of a function. Parameters that say nothing are none.
Json arguments_schema(const JsonField& function) {
  static const Json kNone = {{"type", "object"}, {"additionalProperties", false}};
  const auto parameters = function.find("parameters");
  if (!parameters || !parameters->value().is_object()) return parameters ? parameters->value() : kNone;
  const Json& said = parameters->value();
  const bool none = std::all_of(said.items().begin(), said.items().end(), [](const auto& member) {
    const std::string& key = member.key();
    if (key == "properties" || key == "required")
      return member.value().is_structured() && member.value().empty();
    return key == "type" || key == "title" || key == "description" || key == "$schema";
  });
  const auto type = said.find("type");
  return none && (type == said.end() || *type == "object") ? kNone : said;
}

/// The one way in which arguments can be, if it has nothing but properties with names.
std::optional<SchemaPart> named_arguments(SchemaRules& rules, const Json& schema) {
  std::vector<SchemaPart> parts = rules.parts(schema);
  if (parts.size() != 1 || parts[0].values || parts[0].allowed() != kObjectType) return std::nullopt;
  const SchemaPart& part = parts[0];
  const bool open = part.additional && *part.additional != Json(false);
  const bool named = std::all_of(part.required.begin(), part.required.end(), [&](const std::string& name) {
    return std::any_of(part.properties.begin(), part.properties.end(),
                       [&](const auto& property) { return property.first == name; });
  });
  return open || !named ? std::nullopt : std::optional(std::move(parts[0]));
}

bool is_identifier(const std::string& name) {
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '_' || is_ascii_letter_or_digit(c); });
}

bool is_required(const SchemaPart& part, const std::string& name) {
  return std::find(part.required.begin(), part.required.end(), name) != part.required.end();
}

}  // namespace

State CallRules::add(State from, const JsonField& tools, std::string_view only) {
  for (const auto& [text, id] : marks_.tokens) {
    if (text.empty() || id < 0 || id > std::numeric_limits<std::int32_t>::max())
      throw GrammarError("expected special tokens with texts and ids, got " + json_quoted(text) + ", " +
                         std::to_string(id));
  }
  const State begun = network_.add_state(), end = network_.add_state();
  network_.add_free(add_mark(from, marks_.list_begin), begun);
  bool any = false;
  for (std::size_t i = 0; i < tools.array_size(); ++i) {
    const JsonField function = tools.at(i).at("function");
    const std::string& name = function.at("name").string();
    if (!only.empty() && name != only) continue;
    any = true;
    const State call = add_call(add_mark(begun, marks_.begin), function, tools.where() + ": " + name);
    network_.add_free(add_mark(call, marks_.end), end);
  }
  if (!any)
    throw GrammarError("expected a function" + (only.empty() ? "" : " " + std::string(only)) + ", got none");
  if (marks_.several) network_.add_free(add_mark(end, marks_.separator), begun);
  return add_mark(end, marks_.list_end);
}

State CallRules::add_mark(State from, std::string_view mark) const {
  while (!mark.empty()) {
    std::size_t begin = mark.npos;
    const std::pair<std::string, std::int64_t>* first = nullptr;
    for (const auto& token : marks_.tokens) {
      const std::size_t at = mark.find(token.first);
      if (at >= begin) continue;
      begin = at;
      first = &token;
    }
    from = network_.add_text(from, mark.substr(0, begin));
    if (first == nullptr) break;
    const State after = network_.add_state();
    network_.add_token(from, static_cast<std::uint32_t>(first->second), after);
    from = after;
    mark.remove_prefix(begin + first->first.size());
  }
  return from;
}

State CallRules::add_call(State from, const JsonField& function, const std::string& where) {
  using Syntax = ToolCallMarks::Syntax;
  const std::string& name = function.at("name").string();
  const Json& schema = schemas_.emplace_back(arguments_schema(function));
  SchemaRules rules(json_, schema, where, unsupported_, notes_);
  if (marks_.syntax == Syntax::named) {
    State at = network_.add_text(from, name);
    if (!marks_.id_begin.empty())
      at = json_.add_raw(add_mark(at, marks_.id_begin), regex_texts("[a-zA-Z0-9]{9}", true));
    return json_.add(add_mark(at, marks_.name_end), rules.add());
  }
  const bool has_keys = marks_.syntax == Syntax::tags || marks_.syntax == Syntax::python;
  const auto part = has_keys ? named_arguments(rules, schema) : std::nullopt;
  if (part && marks_.syntax == Syntax::tags) return add_tags(from, name, rules, *part);
  if (marks_.syntax == Syntax::python) {
    const bool fits = part && std::all_of(part->properties.begin(), part->properties.end(),
                                          [](const auto& property) { return is_identifier(property.first); });
    if (fits) return add_python(from, name, rules, *part);
    throw GrammarError(name +
                       ": expected parameters that are one object of properties with names of Python's, "
                       "as the model writes calls, got others");
  }
  return add_object(from, name, rules.add());
}

State CallRules::add_object(State from, const std::string& name, Rule arguments) const {
  const auto spaced = [&](State state, const char* text) {
    return json_.add_space(network_.add_text(state, text));
  };
  const State named = json_.add_string(
      spaced(json_.add_string(spaced(from, "{"), std::string_view("name")), ":"), std::string_view(name));
  const State key = json_.add_string(spaced(named, ","), std::string_view(marks_.arguments_key));
  return network_.add_text(json_.add_space(json_.add(spaced(key, ":"), arguments)), "}");
}

State CallRules::add_tags(State from, const std::string& name, SchemaRules& rules, const SchemaPart& part) {
  State at = network_.add_text(from, "<function=" + name + ">");
  for (const auto& [key, schema] : part.properties) {
    const State begun = network_.add_text(at, "\n<parameter=" + key + ">\n"), after = network_.add_state();
    network_.add_free(add_unquoted(begun, rules, key, schema), after);
    if (!is_required(part, key)) network_.add_free(at, after);
    at = after;
  }
  return network_.add_text(at, "\n</function>");
}

State CallRules::add_unquoted(State from, SchemaRules& rules, const std::string& name, const Json& schema) {
  const std::vector<SchemaPart> parts = rules.parts(schema);
  const bool is_text = std::any_of(
      parts.begin(), parts.end(), [](const SchemaPart& part) { return (part.allowed() & kStringType) != 0; });
  if (!is_text)
    return network_.add_text(json_.add(from, rules.add(schema, "#/properties/" + name)), kEndOfParameter);
  if (parts.size() == 1 && parts[0].values) {
    const State end = network_.add_state();
    for (const Json& value : *parts[0].values)
      network_.add_free(
          network_.add_text(from, value.is_string() ? value.get<std::string>() : json_text(value)), end);
    return network_.add_text(end, kEndOfParameter);
  }
  const auto texts = parts.size() == 1 ? rules.limited_texts(parts[0], "#/properties/" + name) : std::nullopt;
  return texts ? network_.add_text(json_.add_raw(from, *texts), kEndOfParameter)
               : add_text_of_parameter(from);
}

// Each state counts the characters of the end that the text so far ends with.
State CallRules::add_text_of_parameter(State from) const {
  std::vector<State> states(kEndOfParameter.size() + 1);
  for (State& state : states) state = network_.add_state();
  network_.add_free(from, states[0]);
  for (std::size_t i = 0; i < kEndOfParameter.size(); ++i) {
    const auto next = static_cast<unsigned char>(kEndOfParameter[i]);
    network_.add_bytes(states[i], next, next, states[i + 1]);
    const auto add_others = [&](char32_t first, char32_t last) {
      if (first > next || last < next) return network_.add_characters(states[i], first, last, states[0]);
      if (first < next) network_.add_characters(states[i], first, next - 1, states[0]);
      if (last > next) network_.add_characters(states[i], next + 1, last, states[0]);
    };
    add_others('\t', '\t');
    add_others(' ', kLastCharacter);
    if (next != '\n') network_.add_bytes(states[i], '\n', '\n', states[1]);
  }
  return states.back();
}

State CallRules::add_python(State from, const std::string& name, SchemaRules& rules, const SchemaPart& part) {
  // Where no argument has been written yet, and after one.
  State none = network_.add_text(from, name + "("), some = network_.add_state();
  for (const auto& [key, schema] : part.properties) {
    const State begun = network_.add_state(), next_none = network_.add_state(),
                next_some = network_.add_state();
    network_.add_free(none, begun);
    network_.add_free(network_.add_text(some, ", "), begun);
    const Rule value = rules.add(schema, "#/properties/" + key);
    network_.add_call(network_.add_text(begun, key + "="), value, next_some);
    if (!is_required(part, key)) {
      network_.add_free(none, next_none);
      network_.add_free(some, next_some);
    }
    none = next_none;
    some = next_some;
  }
  const State end = network_.add_state();
  network_.add_free(none, end);
  network_.add_free(some, end);
  return network_.add_text(end, ")");
}

}  // namespace heed::grammar
