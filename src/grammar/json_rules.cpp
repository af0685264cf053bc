// Writes the rules of JSON into a network.
#include "grammar/schema_rules.h"

#include <algorithm>

#include "core/strings.h"

namespace heed::grammar {
namespace {

constexpr int kMostIndentation = 32;
// Before a point and after it. With exponents of two digits no number is too large or too small for a double.
constexpr int kMostDigitsWritten = 100;

/// Adds up to `most` further digits after `from`, with `to` after each and without any.
void add_digits(Network& network, State from, int most, State to) {
  network.add_free(from, to);
  for (int i = 0; i < most; ++i) {
    const State next = network.add_state();
    network.add_bytes(from, '0', '9', next);
    network.add_free(next, to);
    from = next;
  }
}

void add_hex(Network& network, State from, unsigned low, unsigned high, State to) {
  if (low <= 9) network.add_bytes(from, '0' + low, '0' + std::min(high, 9u), to);
  if (high < 10) return;
  const unsigned first = std::max(low, 10u) - 10, last = high - 10;
  network.add_bytes(from, 'A' + first, 'A' + last, to);
  network.add_bytes(from, 'a' + first, 'a' + last, to);
}

State add_any_hex(Network& network, State from, int digits) {
  for (int i = 0; i < digits; ++i) {
    const State to = network.add_state();
    add_hex(network, from, 0, 15, to);
    from = to;
  }
  return from;
}

void add_character(Network& network, State from, State to) {
  network.add_characters(from, 0x20, 0x21, to);
  network.add_characters(from, 0x23, 0x5B, to);
  network.add_characters(from, 0x5D, kLastCharacter, to);
  const State escape = network.add_text(from, "\\");
  for (const unsigned char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) network.add_bytes(escape, c, c, to);
  const State unit = network.add_text(escape, "u"), plain = network.add_state(), d = network.add_state(),
              below_surrogates = network.add_state(), high = network.add_state();
  add_hex(network, unit, 0, 12, plain);
  add_hex(network, unit, 14, 15, plain);
  network.add_free(add_any_hex(network, plain, 3), to);
  add_hex(network, unit, 13, 13, d);
  add_hex(network, d, 0, 7, below_surrogates);
  network.add_free(add_any_hex(network, below_surrogates, 2), to);
  add_hex(network, d, 8, 11, high);
  const State low = network.add_text(add_any_hex(network, high, 2), "\\u"), low_d = network.add_state(),
              low_unit = network.add_state();
  add_hex(network, low, 13, 13, low_d);
  add_hex(network, low_d, 12, 15, low_unit);
  network.add_free(add_any_hex(network, low_unit, 2), to);
}

/// A fraction and an exponent, each of which may be missing.
void add_fraction(Network& network, State from, State to) {
  const State first = network.add_state(), after = network.add_state(), sign = network.add_state(),
              exponent = network.add_state();
  network.add_bytes(network.add_text(from, "."), '0', '9', first);
  add_digits(network, first, kMostDigitsWritten - 1, after);
  network.add_free(from, after);
  network.add_free(after, to);
  for (const unsigned char c : {'e', 'E'}) network.add_bytes(after, c, c, sign);
  const State unsigned_exponent = network.add_state();
  network.add_free(sign, unsigned_exponent);
  for (const unsigned char c : {'+', '-'}) network.add_bytes(sign, c, c, unsigned_exponent);
  network.add_bytes(unsigned_exponent, '0', '9', exponent);
  add_digits(network, exponent, 1, to);
}

State add_integer(Network& network, State from) {
  const State after_sign = network.add_state(), digits = network.add_state(), to = network.add_state();
  network.add_free(from, after_sign);
  network.add_bytes(from, '-', '-', after_sign);
  network.add_bytes(after_sign, '0', '0', to);
  network.add_bytes(after_sign, '1', '9', digits);
  add_digits(network, digits, kMostDigitsWritten - 1, to);
  return to;
}

}  // namespace

JsonRules::JsonRules(Network& rules_of, bool in_python)
    : network(rules_of),
      python(in_python),
      space(network.add_rule()),
      character(network.add_rule()),
      string(network.add_rule()),
      number(network.add_rule()),
      integer(network.add_rule()),
      value(network.add_rule()),
      object(network.add_rule()),
      array(network.add_rule()) {
  const auto finish = [this](Rule rule, State last) { network.add_free(last, network.end(rule)); };
  network.add_free(network.start(space), network.end(space));
  network.add_bytes(network.start(space), ' ', ' ', network.end(space));
  State indentation = network.add_text(network.start(space), "\n");
  finish(space, indentation);
  for (int i = 0; i < kMostIndentation; ++i) {
    const State next = network.add_state();
    for (const unsigned char c : {' ', '\t'}) network.add_bytes(indentation, c, c, next);
    finish(space, next);
    indentation = next;
  }

  add_character(network, network.start(character), network.end(character));
  const State inside = network.add_text(network.start(string), "\"");
  add_character(network, inside, inside);
  finish(string, network.add_text(inside, "\""));

  finish(integer, add_integer(network, network.start(integer)));
  add_fraction(network, add_integer(network, network.start(number)), network.end(number));

  for (const Rule rule : {string, number, object, array})
    network.add_call(network.start(value), rule, network.end(value));
  for (const Json& one : {Json(true), Json(false), Json()})
    finish(value, network.add_text(network.start(value), word(one)));

  const auto add_list = [&](Rule list, std::string_view open, unsigned char close, auto add_element) {
    const State first = add_space(network.add_text(network.start(list), open)), element = network.add_state();
    network.add_bytes(first, close, close, network.end(list));
    network.add_free(first, element);
    const State after = add_element(element);
    network.add_free(add_space(network.add_text(after, ",")), element);
    network.add_bytes(add_space(after), close, close, network.end(list));
  };
  add_list(array, "[", ']', [&](State element) { return add(element, value); });
  add_list(object, "{", '}',
           [&](State member) { return add(add_space(network.add_text(add(member, string), ":")), value); });
}

State JsonRules::add(State from, Rule rule) const {
  const State to = network.add_state();
  network.add_call(from, rule, to);
  return to;
}

void JsonRules::add_escaped(State from, char32_t first, char32_t last, State to) const {
  constexpr std::string_view kShort = "\b\t\n\f\r", kLetters = "btnfr";
  for (char32_t c = first; c <= std::min<char32_t>(last, 0x1F); ++c) {
    const auto known = kShort.find(static_cast<char>(c));
    std::string text = "\\u00";
    if (known != std::string_view::npos) {
      text = std::string("\\") + kLetters[known];
    } else {
      append_hex(text, static_cast<std::uint8_t>(c));
    }
    network.add_free(network.add_text(from, text), to);
  }
  for (const char32_t c : {U'"', U'\\'}) {
    if (first <= c && c <= last)
      network.add_free(network.add_text(from, std::string{'\\', static_cast<char>(c)}), to);
  }
  for (const CharRange& range :
       {CharRange{0x20, 0x21}, CharRange{0x23, 0x5B}, CharRange{0x5D, kLastCharacter}}) {
    const char32_t low = std::max(first, range.first), high = std::min(last, range.last);
    if (low <= high) network.add_characters(from, low, high, to);
  }
}

template <class AddEdge>
State JsonRules::add_texts(State from, const CharAutomaton& texts, const AddEdge& add_edge) const {
  std::vector<State> states(texts.states.size());
  for (State& state : states) state = network.add_state();
  const State to = network.add_state();
  network.add_free(from, states[0]);
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const CharAutomaton::Edge& edge : texts.states[i].edges) add_edge(states[i], edge, states[edge.to]);
    for (const std::uint32_t next : texts.states[i].free) network.add_free(states[i], states[next]);
    if (texts.states[i].accepts) network.add_free(states[i], to);
  }
  return to;
}

State JsonRules::add_string(State from, const CharAutomaton& texts) const {
  const State end = add_texts(network.add_text(from, "\""), texts,
                              [this](State state, const CharAutomaton::Edge& edge, State to) {
                                if (edge.first == 0 && edge.last == kLastCharacter) {
                                  network.add_call(state, character, to);
                                } else {
                                  add_escaped(state, edge.first, edge.last, to);
                                }
                              });
  return network.add_text(end, "\"");
}

State JsonRules::add_raw(State from, const CharAutomaton& texts) const {
  return add_texts(from, texts, [this](State state, const CharAutomaton::Edge& edge, State to) {
    network.add_characters(state, edge.first, edge.last, to);
  });
}

State JsonRules::add_string(State from, std::string_view text) const {
  return network.add_text(from, json_quoted(text));
}

std::string JsonRules::word(const Json& value) const {
  if (!python || value.is_number()) return json_text(value);
  return value.is_null() ? "None" : value == Json(true) ? "True" : "False";
}

State JsonRules::add_value(State from, const Json& given) const {
  if (given.is_string()) return add_string(from, given.get_ref<const std::string&>());
  if (!given.is_structured()) return network.add_text(from, word(given));
  from = add_space(network.add_text(from, given.is_array() ? "[" : "{"));
  bool first = true;
  for (const auto& [key, member] : given.items()) {
    if (!first) from = add_space(network.add_text(from, ","));
    first = false;
    if (given.is_object()) from = add_space(network.add_text(add_string(from, key), ":"));
    from = add_value(from, member);
  }
  if (!first) from = add_space(from);
  return network.add_text(from, given.is_array() ? "]" : "}");
}

}  // namespace heed::grammar
