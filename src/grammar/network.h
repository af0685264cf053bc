// Network: a set of strings of bytes and special tokens as rules that call each other (a recursive transition
// network, Woods, "Transition network grammars for natural language analysis", CACM 1970).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/char_automaton.h"

namespace heed::grammar {

using State = std::uint32_t;
using Rule = std::uint32_t;

struct NetworkEdge {
  enum class Kind : std::uint8_t { bytes, free, call, token };
  Kind kind;
  std::uint8_t first, last;  ///< of bytes
  std::uint32_t id;          ///< of the rule of a call, or of a special token
  State to;
};

/// A rule has a start and an end; no edge leaves the end or, but within the rule, enters the start. It is
/// called first, and may call itself in any place but before its first byte or token, unless nothing follows
/// the call.
class Network {
 public:
  /// Throws GrammarError if there are too many states.
  State add_state();
  Rule add_rule();
  void add_bytes(State from, unsigned first, unsigned last, State to);
  void add_free(State from, State to);
  void add_call(State from, Rule rule, State to);
  void add_token(State from, std::uint32_t id, State to);
  /// Adds `text` after `from`, and returns the state after it.
  State add_text(State from, std::string_view text);
  /// Adds the UTF-8 of the characters first .. last without surrogates.
  void add_characters(State from, char32_t first, char32_t last, State to);

  /// Drops the edges after which `main` cannot end, so that every way that is left leads to its end. Returns
  /// false if there is none at all. To be called once, after everything has been added.
  bool finish(Rule main);

  /// Whether each rule has a text; `alone`: if each rule that it calls has one. Valid before finish().
  std::vector<bool> rules_with_texts(bool alone) const;

  Rule main() const { return main_; }
  State start(Rule rule) const { return rules_[rule].start; }
  State end(Rule rule) const { return rules_[rule].end; }
  const std::vector<NetworkEdge>& edges(State state) const { return states_[state]; }
  bool is_end(State state) const { return ends_[state]; }
  /// Bytes of the same class are on the same edges. Valid after finish().
  unsigned byte_classes() const { return byte_classes_; }
  const std::array<std::uint8_t, 256>& class_of_byte() const { return class_of_byte_; }

 private:
  struct Ends {
    State start, end;
  };
  void add_utf8(State from, const unsigned char* first, const unsigned char* last, std::size_t bytes,
                State to);
  std::vector<bool> live_states(bool alone) const;
  void find_byte_classes();

  std::vector<std::vector<NetworkEdge>> states_;
  std::vector<bool> ends_;
  std::vector<Ends> rules_;
  Rule main_ = 0;
  unsigned byte_classes_ = 1;
  std::array<std::uint8_t, 256> class_of_byte_{};
};

}  // namespace heed::grammar
