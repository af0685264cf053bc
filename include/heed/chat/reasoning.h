// Reasoning in the answer of a model: what it thinks between `<think>` and `</think>` before it answers.
#pragma once

#include <string>
#include <string_view>

#include "heed/export.h"

namespace HEED_API heed {

/// Splits an answer that arrives piece by piece into reasoning, which comes first, and content. An answer
/// that does not begin with `<think>` has no reasoning, unless the prompt ends within it; one that ends
/// within it has no content. Threads: one at a time.
class ReasoningStream {
 public:
  struct Piece {
    std::string reasoning, content;
  };
  /// `begun`: whether the prompt ends within reasoning (begins_reasoning()). `whole`: pieces have the marks,
  /// and the white space at them, so that they join to the answer.
  explicit ReasoningStream(bool begun, bool whole = false)
      : whole_(whole), state_(begun ? State::thinking : State::undecided) {}

  /// Takes more of the answer, and returns what is known of it.
  Piece push(std::string_view text);
  /// Returns what is held back, as no more text comes.
  Piece finish();
  /// Whether the text so far may be reasoning alone.
  bool may_think() const { return state_ != State::answering; }
  /// Whether there is any reasoning.
  bool has_thought() const { return has_thought_; }

 private:
  enum class State { undecided, thinking, answering };
  void begin(State state, std::string& taken, std::size_t size);

  bool whole_;
  State state_;
  bool has_thought_ = false;
  bool at_start_ = true;  // of reasoning or of content
  std::string held_;
};

/// Whether a prompt ends with `<think>`, after which only white space stands.
bool begins_reasoning(std::string_view prompt);

}  // namespace heed
