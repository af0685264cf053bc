// CharAutomaton: a set of texts as a nondeterministic automaton over characters. GrammarError: an error in a
// grammar, before its file or key is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace heed::grammar {

/// What is wrong in a grammar. The caller that knows where turns it into an Error.
struct GrammarError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr char32_t kLastCharacter = 0x10FFFF;
/// The most states of an automaton, and of all that a grammar needs.
inline constexpr std::size_t kMostCharStates = 50'000, kMostStates = 500'000;

struct CharRange {
  char32_t first, last;
};

/// A nondeterministic automaton: a text is in the set if its characters lead from state 0 to one that
/// accepts.
struct CharAutomaton {
  struct Edge {
    char32_t first, last;
    std::uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<std::uint32_t> free;  ///< states that are reached without a character
    bool accepts = false;
  };
  std::vector<State> states;

  /// Throws GrammarError if there are too many states.
  std::uint32_t add_state(bool accepts = false);
  void add_edge(std::uint32_t from, char32_t first, char32_t last, std::uint32_t to) {
    states[from].edges.push_back({first, last, to});
  }
};

/// The texts of both.
CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b);
/// The texts of at least `least` and at most `most` characters.
CharAutomaton texts_of_length(std::int64_t least, std::optional<std::int64_t> most);
/// All texts but `names`, which are UTF-8.
CharAutomaton texts_other_than(const std::vector<std::string>& names);

// Regular expressions as sets of texts: the part of ECMA-262's syntax that describes regular languages.

/// Returns the texts that contain a match of `pattern`, as JSON Schema's `pattern` does, or if `whole` those
/// that match as a whole. Throws GrammarError if `pattern` is not valid UTF-8, too large, or has something
/// else than characters, `.`, classes, `\d \w \s` and their negations, escapes of characters, groups (also
/// `(?:`), alternatives, the quantifiers `* + ? {n} {n,} {n,m}`, and `^` and `$` at the ends of an outermost
/// alternative.
CharAutomaton regex_texts(std::string_view pattern, bool whole);

/// Returns the texts of a JSON Schema format, or null for one that is not known.
const CharAutomaton* format_texts(std::string_view format);

// Numbers between bounds, as texts: a comparison digit by digit.

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
