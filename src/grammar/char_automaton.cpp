// Operations on automata over characters.
#include "grammar/char_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/utf8.h"

namespace heed::grammar {

namespace {

constexpr std::size_t kMostComparedEdges = 20'000'000;  // of two automata

}  // namespace

std::uint32_t CharAutomaton::add_state(bool accepts) {
  if (states.size() >= kMostCharStates)
    throw GrammarError("expected texts that " + std::to_string(kMostCharStates) +
                       " states describe, got more");
  states.push_back({{}, {}, accepts});
  return static_cast<std::uint32_t>(states.size() - 1);
}

CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b) {
  CharAutomaton both;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  const auto id_of = [&](std::uint32_t in_a, std::uint32_t in_b) {
    const auto [found, added] = ids.try_emplace({in_a, in_b}, 0);
    if (added) {
      found->second = both.add_state(a.states[in_a].accepts && b.states[in_b].accepts);
      pairs.emplace_back(in_a, in_b);
    }
    return found->second;
  };
  id_of(0, 0);
  std::size_t compared = 0;  // edges
  for (std::uint32_t at = 0; at < pairs.size(); ++at) {
    const auto [in_a, in_b] = pairs[at];
    for (const std::uint32_t to : a.states[in_a].free) {
      const std::uint32_t next = id_of(to, in_b);
      both.states[at].free.push_back(next);
    }
    for (const std::uint32_t to : b.states[in_b].free) {
      const std::uint32_t next = id_of(in_a, to);
      both.states[at].free.push_back(next);
    }
    for (const CharAutomaton::Edge& one : a.states[in_a].edges) {
      compared += b.states[in_b].edges.size();
      if (compared > kMostComparedEdges)
        throw GrammarError("expected texts that fewer edges describe, got more than " +
                           std::to_string(kMostComparedEdges));
      for (const CharAutomaton::Edge& other : b.states[in_b].edges) {
        const char32_t first = std::max(one.first, other.first), last = std::min(one.last, other.last);
        if (first > last) continue;
        const std::uint32_t next = id_of(one.to, other.to);
        both.add_edge(at, first, last, next);
      }
    }
  }
  return both;
}

CharAutomaton texts_of_length(std::int64_t least, std::optional<std::int64_t> most) {
  CharAutomaton result;
  std::uint32_t state = result.add_state(least == 0);
  const std::int64_t counted = most.value_or(least);
  for (std::int64_t length = 1; length <= counted; ++length) {
    const std::uint32_t next = result.add_state(length >= least);
    result.add_edge(state, 0, kLastCharacter, next);
    state = next;
  }
  if (!most) result.add_edge(state, 0, kLastCharacter, state);
  return result;
}

CharAutomaton texts_other_than(const std::vector<std::string>& names) {
  CharAutomaton result;
  result.add_state(true);
  std::vector<std::map<char32_t, std::uint32_t>> children(1);
  for (const std::string& name : names) {
    std::uint32_t state = 0;
    for (std::size_t at = 0; at < name.size();) {
      const auto [child, added] = children[state].try_emplace(next_character(name, at), 0);
      if (added) child->second = result.add_state(true);
      state = child->second;
      if (added) children.emplace_back();
    }
    result.states[state].accepts = false;
  }
  const std::uint32_t other = result.add_state(true);
  result.add_edge(other, 0, kLastCharacter, other);
  for (std::uint32_t state = 0; state < children.size(); ++state) {
    char32_t next = 0;
    for (const auto& [c, to] : children[state]) {
      if (c > next) result.add_edge(state, next, c - 1, other);
      result.add_edge(state, c, c, to);
      next = c + 1;
    }
    if (next <= kLastCharacter) result.add_edge(state, next, kLastCharacter, other);
  }
  return result;
}

}  // namespace heed::grammar
