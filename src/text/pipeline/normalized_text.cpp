// A text with the offsets of its original characters, and its changes from left to right.
#include "text/pipeline/normalized_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/pipeline/byte_level.h"

namespace heed {

GrowthLimit::GrowthLimit(const std::string& where, std::size_t bytes)
    : where_(where),
      bytes_(bytes),
      // Positions have 32 bits.
      limit_(std::min<std::size_t>(64 * bytes + (std::size_t{1} << 20),
                                   std::numeric_limits<std::uint32_t>::max())) {}

void GrowthLimit::refuse() const {
  throw Error(fmt::format(
      "{}: expected a normalizer and a pre-tokenizer that turn a text of {} bytes into at most {}, "
      "got more (get the file again from where it comes from)",
      where_, bytes_, limit_));
}

ByteSpan NormalizedText::original(std::size_t begin, std::size_t end) const {
  if (!spans_.empty()) return {spans_[begin].begin, spans_[end - 1].end};
  while (begin > 0 && !is_utf8_start(text_[begin])) --begin;
  while (end < text_.size() && !is_utf8_start(text_[end])) ++end;
  return {origin_ + static_cast<std::uint32_t>(begin), origin_ + static_cast<std::uint32_t>(end)};
}

NormalizedText NormalizedText::slice(std::size_t begin, std::size_t end) const {
  NormalizedText part;
  part.text_ = text_.substr(begin, end - begin);
  part.limit_ = limit_;
  part.origin_ = begin < end ? original(begin, end).begin : origin_;
  if (!spans_.empty()) {
    part.spans_.assign(spans_.begin() + static_cast<std::ptrdiff_t>(begin),
                       spans_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return part;
}

Rewrite::Rewrite(const NormalizedText& source) : source_(source) {
  text_.reserve(source.text_.size() + source.text_.size() / 4 + 8);
  spans_.reserve(source.text_.size() + source.text_.size() / 4 + 8);
}

char32_t Rewrite::peek() const {
  std::size_t at = at_;
  return next_character(source_.text_, at);
}

ByteSpan Rewrite::span_at(std::size_t at) const {
  const std::string& text = source_.text_;
  if (at < text.size()) return source_.original(at, at + 1);
  const std::uint32_t end =
      text.empty() ? source_.origin_ : source_.original(text.size() - 1, text.size()).end;
  return {end, end};
}

void Rewrite::put(char32_t c, ByteSpan span) {
  append_utf8(text_, c);
  source_.check_growth(text_.size());
  spans_.resize(text_.size(), span);
}

void Rewrite::keep(std::size_t characters) {
  for (; characters > 0 && !done(); --characters) keep_bytes(utf8_length(source_.text_[at_]));
}

void Rewrite::keep_bytes(std::size_t bytes) {
  const std::string& text = source_.text_;
  text_.append(text, at_, bytes);
  if (!source_.spans_.empty()) {
    const auto from = source_.spans_.begin() + static_cast<std::ptrdiff_t>(at_);
    spans_.insert(spans_.end(), from, from + static_cast<std::ptrdiff_t>(bytes));
    at_ += bytes;
    return;
  }
  for (const std::size_t end = at_ + bytes; at_ < end;) {
    const auto length = static_cast<std::uint32_t>(utf8_length(text[at_]));
    const auto begin = source_.origin_ + static_cast<std::uint32_t>(at_);
    spans_.insert(spans_.end(), length, {begin, begin + length});
    at_ += length;
  }
}

void Rewrite::drop(std::size_t characters) {
  for (; characters > 0 && !done(); --characters) at_ += utf8_length(source_.text_[at_]);
}

void Rewrite::spell_bytes(std::size_t bytes) {
  const std::string& text = source_.text_;
  source_.check_growth(text_.size() + bytes);
  for (const std::size_t end = at_ + bytes; at_ < end;) {
    const ByteSpan span = source_.original(at_, at_ + 1);
    for (std::size_t length = utf8_length(text[at_]); length > 0; --length) {
      append_byte_character(text_, static_cast<unsigned char>(text[at_++]));
    }
    spans_.resize(text_.size(), span);
  }
}

void Rewrite::replace(char32_t c, std::size_t dropped) {
  put(c, span_at(at_));
  drop(1 + dropped);
}

void Rewrite::insert(char32_t c) {
  put(c, at_ == 0 ? ByteSpan{source_.origin_, source_.origin_} : span_at(at_ - 1));
}

void Rewrite::prepend(std::string_view text) {
  const ByteSpan span = span_at(at_);
  source_.check_growth(text_.size() + text.size());
  text_ += text;
  spans_.resize(text_.size(), span);
}

NormalizedText Rewrite::finish() {
  NormalizedText result;
  result.text_ = std::move(text_);
  result.spans_ = std::move(spans_);
  result.origin_ = source_.origin_;
  result.limit_ = source_.limit_;
  return result;
}

NormalizedText change_characters(const NormalizedText& source, const std::vector<CharacterChange>& changes,
                                 std::size_t dropped) {
  Rewrite rewrite(source);
  rewrite.drop(dropped);
  for (const CharacterChange& change : changes) {
    if (change.change > 0) {
      rewrite.insert(change.character);
    } else {
      rewrite.replace(change.character, static_cast<std::size_t>(-change.change));
    }
  }
  return rewrite.finish();
}

}  // namespace heed
