// Makes grammars of schemas, expressions, lists and tools, and matches texts with them.
#include "heed/grammar/grammar.h"

#include <deque>

#include "core/json_field.h"
#include "grammar/char_automaton.h"
#include "grammar/lazy_dfa.h"
#include "grammar/schema_rules.h"
#include "heed/core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

using grammar::Network;
using grammar::Rule;
using grammar::State;

constexpr std::size_t kMostSchemaBytes = std::size_t{256} << 10;

/// Returns the network of a main rule that `add` fills from its start on, and returns its last state. Throws
/// Error if it matches nothing.
template <class Add>
std::shared_ptr<const Network> network_of(const std::string& where, const Add& add) {
  const auto network = std::make_shared<Network>();
  bool matches = false;
  try {
    const Rule main = network->add_rule();
    network->add_free(add(*network, network->start(main)), network->end(main));
    matches = network->finish(main);
  } catch (const grammar::GrammarError& error) {
    throw Error(where + ": " + error.what());
  }
  if (!matches) throw Error(where + ": expected a grammar that some text matches, got one that none does");
  return network;
}

Json parse_limited(std::string_view text, const std::string& where) {
  if (text.size() > kMostSchemaBytes) {
    throw Error(where + ": expected at most " + std::to_string(kMostSchemaBytes) + " bytes, got " +
                std::to_string(text.size()));
  }
  return parse_json(text, where);
}

/// The schema of the arguments of a function, whose parameters may be missing.
Json arguments_schema(const JsonField& function) {
  static const Json kNone = {{"type", "object"}, {"additionalProperties", false}};
  const auto parameters = function.find("parameters");
  return parameters ? parameters->value() : kNone;
}

}  // namespace

Grammar::Grammar(std::shared_ptr<const Network> network, std::string where)
    : network_(std::move(network)), where_(std::move(where)) {}

Grammar Grammar::json_schema(std::string_view schema, std::string where) {
  const Json root = parse_limited(schema, where);
  auto network = network_of(where, [&](Network& made, State start) {
    const grammar::JsonRules json(made);
    grammar::SchemaRules rules(json, root, where);
    const Rule whole = rules.add();
    rules.require_texts(whole);
    return json.add(json.add_space(start), whole);
  });
  return {std::move(network), std::move(where)};
}

Grammar Grammar::json_object(std::string where) {
  auto network = network_of(where, [](Network& made, State start) {
    const grammar::JsonRules json(made);
    return json.add(json.add_space(start), json.object);
  });
  return {std::move(network), std::move(where)};
}

Grammar Grammar::regex(std::string_view pattern, std::string where) {
  auto network = network_of(where, [&](Network& made, State start) {
    return grammar::JsonRules(made).add_raw(start, grammar::regex_texts(pattern, true));
  });
  return {std::move(network), std::move(where)};
}

Grammar Grammar::choices(std::span<const std::string> texts, std::string where) {
  auto network = network_of(where, [&](Network& made, State start) {
    const State end = made.add_state();
    for (const std::string& text : texts) {
      if (text.empty() || first_invalid_utf8(text))
        throw grammar::GrammarError("expected texts of at least one character in UTF-8, got " +
                                    json_quoted(text));
      made.add_free(made.add_text(start, text), end);
    }
    return end;
  });
  return {std::move(network), std::move(where)};
}

Grammar Grammar::tool_calls(std::string_view tools, const ToolCallMarks& marks, std::string_view only,
                            std::string where) {
  const Json list = parse_limited(tools, where);
  const JsonField field(list, where);
  std::deque<Json> schemas;
  auto network = network_of(where, [&](Network& made, State start) {
    const grammar::JsonRules json(made);
    const State begun = made.add_text(start, marks.begin), end = made.add_state();
    bool any = false;
    for (std::size_t i = 0; i < field.array_size(); ++i) {
      const JsonField function = field.at(i).at("function");
      const std::string& name = function.at("name").string();
      if (!only.empty() && name != only) continue;
      any = true;
      const State open = json.add_space(made.add_text(begun, "{"));
      const State named =
          json.add_string(json.add_space(made.add_text(json.add_string(open, std::string_view("name")), ":")),
                          std::string_view(name));
      const State key =
          json.add_string(json.add_space(made.add_text(named, ",")), std::string_view(marks.arguments_key));
      const std::string in_tool = where + ": " + name;
      grammar::SchemaRules rules(json, schemas.emplace_back(arguments_schema(function)), in_tool);
      const State value = json.add(json.add_space(made.add_text(key, ":")), rules.add());
      made.add_free(made.add_text(made.add_text(json.add_space(value), "}"), marks.end), end);
    }
    if (!any)
      throw grammar::GrammarError("expected a function" + (only.empty() ? "" : " " + std::string(only)) +
                                  ", got none");
    return end;
  });
  return {std::move(network), std::move(where)};
}

GrammarMatcher::GrammarMatcher(const Grammar& grammar)
    : dfa_(std::make_shared<grammar::LazyDfa>(grammar.network())),
      where_(grammar.where()),
      state_(dfa_->start()) {}

bool GrammarMatcher::accept(std::string_view bytes) {
  try {
    for (const char byte : bytes) {
      dfa_->begin_steps();
      state_ = dfa_->step(state_, static_cast<unsigned char>(byte));
    }
  } catch (const grammar::GrammarError& error) {
    throw Error(where_ + ": " + error.what());
  }
  return state_ != grammar::LazyDfa::kDead;
}

bool GrammarMatcher::may_end() const { return dfa_->may_end(state_); }

bool GrammarMatcher::must_end() const { return may_end() && dfa_->must_end(state_); }

}  // namespace heed
