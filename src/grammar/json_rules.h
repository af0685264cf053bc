// The rules of JSON (RFC 8259) in a network: any value, and pieces that rules of schemas are made of.
#pragma once

#include <string_view>

#include "core/json.h"
#include "grammar/network.h"

namespace heed::grammar {

/// How JSON is written: white space may be nothing, one space, or one line end and up to 32 spaces and tabs,
/// between brackets, members and elements and after a colon. Escapes of surrogates only occur in pairs.
/// Numbers have at most 100 digits before a point, 100 after it and 2 in the exponent, so that every double
/// can hold them.
struct JsonRules {
  /// Adds the rules to `network`, which must outlive this.
  explicit JsonRules(Network& network);

  Network& network;
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
  template <class AddEdge>
  State add_texts(State from, const CharAutomaton& texts, const AddEdge& add_edge) const;
  /// Characters of a string in their shortest form.
  void add_escaped(State from, char32_t first, char32_t last, State to) const;
};

}  // namespace heed::grammar
