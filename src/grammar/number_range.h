// Numbers between bounds, as texts: a comparison digit by digit.
#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "grammar/char_automaton.h"

namespace heed::grammar {

/// A number as decimal digits: no leading zeros before the point (but for 0), no trailing ones after it.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction = {};
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};
/// Returns the shortest decimal that is read as this JSON number. Throws GrammarError if it has more than 400
/// digits.
Decimal decimal_of(const Json& number);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

/// Returns the numbers between the bounds, written as JSON does without an exponent; if `integers`, without a
/// point either.
CharAutomaton numbers_between(const std::optional<NumberBound>& lower,
                              const std::optional<NumberBound>& upper, bool integers);

}  // namespace heed::grammar
