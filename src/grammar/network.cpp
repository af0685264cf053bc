// Builds the rules of a network, removes what cannot end, and groups bytes that every edge treats alike.
#include "grammar/network.h"

#include <algorithm>

#include "core/utf8.h"

namespace heed::grammar {
namespace {

using Kind = NetworkEdge::Kind;

}  // namespace

State Network::add_state() {
  if (states_.size() >= kMostStates)
    throw GrammarError("expected a grammar of at most " + std::to_string(kMostStates) + " states, got more");
  states_.emplace_back();
  ends_.push_back(false);
  return static_cast<State>(states_.size() - 1);
}

Rule Network::add_rule() {
  const State start = add_state(), end = add_state();
  ends_[end] = true;
  rules_.push_back({start, end});
  return static_cast<Rule>(rules_.size() - 1);
}

void Network::add_bytes(State from, unsigned first, unsigned last, State to) {
  states_[from].push_back(
      {Kind::bytes, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), 0, to});
}

void Network::add_free(State from, State to) { states_[from].push_back({Kind::free, 0, 0, 0, to}); }

void Network::add_call(State from, Rule rule, State to) {
  states_[from].push_back({Kind::call, 0, 0, rule, to});
}

void Network::add_token(State from, std::uint32_t id, State to) {
  states_[from].push_back({Kind::token, 0, 0, id, to});
}

State Network::add_text(State from, std::string_view text) {
  for (const char c : text) {
    const State to = add_state();
    add_bytes(from, static_cast<unsigned char>(c), static_cast<unsigned char>(c), to);
    from = to;
  }
  return from;
}

void Network::add_utf8(State from, const unsigned char* first, const unsigned char* last, std::size_t bytes,
                       State to) {
  if (bytes == 1) return add_bytes(from, *first, *last, to);
  static constexpr unsigned char kLeast[] = {0x80, 0x80, 0x80}, kMost[] = {0xBF, 0xBF, 0xBF};
  const auto part = [&](unsigned low, unsigned high, const unsigned char* rest_first,
                        const unsigned char* rest_last) {
    const State after = add_state();
    add_bytes(from, low, high, after);
    add_utf8(after, rest_first, rest_last, bytes - 1, to);
  };
  unsigned low = *first, high = *last;
  if (low == high) return part(low, high, first + 1, last + 1);
  if (!std::equal(first + 1, first + bytes, kLeast)) part(low, low, first + 1, kMost), ++low;
  if (!std::equal(last + 1, last + bytes, kMost)) part(high, high, kLeast, last + 1), --high;
  if (low <= high) part(low, high, kLeast, kMost);
}

void Network::add_characters(State from, char32_t first, char32_t last, State to) {
  static constexpr CharRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCharacter}};
  for (const CharRange& length : kLengths) {
    const char32_t low = std::max(first, length.first), high = std::min(last, length.last);
    if (low > high) continue;
    std::string begin, end;
    append_utf8(begin, low);
    append_utf8(end, high);
    add_utf8(from, reinterpret_cast<const unsigned char*>(begin.data()),
             reinterpret_cast<const unsigned char*>(end.data()), begin.size(), to);
  }
}

/// The states from which the end of their rule can be reached; `alone`: if each called rule's can.
std::vector<bool> Network::live_states(bool alone) const {
  std::vector<std::vector<State>> sources(states_.size());  // of edges, by what makes them live
  for (State from = 0; from < states_.size(); ++from) {
    for (const NetworkEdge& edge : states_[from]) {
      sources[edge.to].push_back(from);
      if (edge.kind == Kind::call) sources[start(edge.id)].push_back(from);
    }
  }
  std::vector<bool> live = ends_;
  std::vector<State> todo;
  for (State state = 0; state < states_.size(); ++state) {
    if (live[state]) todo.push_back(state);
  }
  while (!todo.empty()) {
    const State reached = todo.back();
    todo.pop_back();
    for (const State from : sources[reached]) {
      if (live[from]) continue;
      live[from] = std::any_of(states_[from].begin(), states_[from].end(), [&](const NetworkEdge& edge) {
        return live[edge.to] && (alone || edge.kind != Kind::call || live[start(edge.id)]);
      });
      if (live[from]) todo.push_back(from);
    }
  }
  return live;
}

void Network::find_byte_classes() {
  std::array<bool, 257> begins{};
  for (const auto& edges : states_) {
    for (const NetworkEdge& edge : edges) {
      if (edge.kind == Kind::bytes) begins[edge.first] = begins[edge.last + 1u] = true;
    }
  }
  unsigned current = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++current;
    class_of_byte_[byte] = static_cast<std::uint8_t>(current);
  }
  byte_classes_ = current + 1;
}

std::vector<bool> Network::rules_with_texts(bool alone) const {
  const std::vector<bool> live = live_states(alone);
  std::vector<bool> with_texts;
  for (const Ends& rule : rules_) with_texts.push_back(live[rule.start]);
  return with_texts;
}

bool Network::finish(Rule main) {
  main_ = main;
  const std::vector<bool> live = live_states(false);
  for (auto& edges : states_) {
    std::erase_if(edges, [&](const NetworkEdge& edge) {
      return !live[edge.to] || (edge.kind == Kind::call && !live[start(edge.id)]);
    });
  }
  find_byte_classes();
  return live[start(main)];
}

}  // namespace heed::grammar
