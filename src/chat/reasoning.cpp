// The states of an answer: what it begins with, its reasoning, its content.
#include "heed/chat/reasoning.h"

#include <algorithm>
#include <utility>

#include "chat/call_reader.h"

namespace heed {
namespace {

using chat::without_space_after;
using chat::without_space_before;

constexpr std::string_view kBegin = "<think>", kEnd = "</think>";

/// The bytes at the end of a text that may begin `mark`.
std::size_t begun_mark(std::string_view text, std::string_view mark) {
  std::size_t size = std::min(mark.size() - 1, text.size());
  while (size > 0 && !text.ends_with(mark.substr(0, size))) --size;
  return size;
}

}  // namespace

/// Goes on to a state after the first `size` bytes that are held, which are a mark with white space.
void ReasoningStream::begin(State state, std::string& taken, std::size_t size) {
  if (whole_) taken += held_.substr(0, size);
  held_.erase(0, size);
  state_ = state;
  at_start_ = true;
}

ReasoningStream::Piece ReasoningStream::push(std::string_view text) {
  held_ += text;
  Piece piece;
  if (state_ == State::undecided) {
    const std::string_view rest = without_space_before(held_);
    if (rest.size() < kBegin.size() && kBegin.starts_with(rest)) return piece;
    if (!rest.starts_with(kBegin)) {
      state_ = State::answering;
      at_start_ = false;  // what it begins with is its own
    } else {
      begin(State::thinking, piece.reasoning, held_.size() - rest.size() + kBegin.size());
    }
  }
  if (state_ == State::thinking) {
    has_thought_ = true;
    if (at_start_ && !whole_) held_.erase(0, held_.size() - without_space_before(held_).size());
    const std::size_t end = held_.find(kEnd);
    std::string_view known = std::string_view(held_).substr(0, end);
    if (end == held_.npos) known.remove_suffix(begun_mark(known, kEnd));
    if (!whole_) known = without_space_after(known);
    const std::size_t size = known.size();
    at_start_ = at_start_ && size == 0;
    piece.reasoning += known;
    held_.erase(0, size);
    if (end == held_.npos) return piece;
    begin(State::answering, piece.reasoning, end - size + kEnd.size());
  }
  if (at_start_ && !whole_) held_.erase(0, held_.size() - without_space_before(held_).size());
  at_start_ = at_start_ && held_.empty();
  piece.content = std::exchange(held_, {});
  return piece;
}

ReasoningStream::Piece ReasoningStream::finish() {
  Piece piece;
  std::string rest = std::exchange(held_, {});
  if (state_ == State::thinking) {
    piece.reasoning = whole_ ? rest : std::string(without_space_after(rest));
  } else {
    piece.content = std::move(rest);
  }
  return piece;
}

bool begins_reasoning(std::string_view prompt) { return without_space_after(prompt).ends_with(kBegin); }

}  // namespace heed
