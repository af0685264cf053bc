// Makes grammars of schemas, expressions, lists and tools, and matches texts with them.
#include "heed/grammar/grammar.h"

#include "core/json_field.h"
#include "grammar/call_rules.h"
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

}  // namespace

Grammar::Grammar(std::shared_ptr<const Network> network, std::string where, std::vector<std::string> notes)
    : network_(std::move(network)), where_(std::move(where)), notes_(std::move(notes)) {}

Grammar Grammar::json_schema(std::string_view schema, std::string where, UnsupportedKeywords unsupported) {
  const Json root = parse_limited(schema, where);
  std::vector<std::string> notes;
  auto network = network_of(where, [&](Network& made, State start) {
    const grammar::JsonRules json(made);
    grammar::SchemaRules rules(json, root, where, unsupported, notes);
    const Rule whole = rules.add();
    rules.require_texts(whole);
    return json.add(json.add_space(start), whole);
  });
  return {std::move(network), std::move(where), std::move(notes)};
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
                            std::string where, UnsupportedKeywords unsupported) {
  const Json list = parse_limited(tools, where);
  std::vector<std::string> notes;
  auto network = network_of(where, [&](Network& made, State start) {
    const grammar::JsonRules json(made, marks.syntax == ToolCallMarks::Syntax::python);
    return grammar::CallRules(json, marks, unsupported, notes).add(start, JsonField(list, where), only);
  });
  return {std::move(network), std::move(where), std::move(notes)};
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

bool GrammarMatcher::accept_token(std::int64_t id) {
  try {
    dfa_->begin_steps();
    state_ = dfa_->step_token(state_, id);
  } catch (const grammar::GrammarError& error) {
    throw Error(where_ + ": " + error.what());
  }
  return state_ != grammar::LazyDfa::kDead;
}

bool GrammarMatcher::may_end() const { return dfa_->may_end(state_); }

bool GrammarMatcher::must_end() const { return may_end() && dfa_->must_end(state_); }

}  // namespace heed
