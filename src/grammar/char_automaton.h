// CharAutomaton: a set of texts as a nondeterministic automaton over characters. GrammarError: an error in a
// grammar, before its file or key is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

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

}  // namespace heed::grammar
