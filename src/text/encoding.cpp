// Joins, truncates and pads encodings: what every tokenizer does the same way.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"

namespace heed {
namespace {

template <class T>
void append_to(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

template <class T>
std::vector<T> part_of(const std::vector<T>& from, std::int64_t begin, std::int64_t end) {
  return {from.begin() + begin, from.begin() + end};
}

template <class T>
void fill(std::vector<T>& values, std::int64_t count, bool left, const T& value) {
  values.insert(left ? values.begin() : values.end(), static_cast<std::size_t>(count), value);
}

/// Returns `text` as valid UTF-8; if it must be repaired, the result is in `storage`.
std::string_view valid(std::string_view text, std::string& storage) {
  if (!first_invalid_utf8(text)) return text;
  storage = replace_invalid_utf8(text);
  return storage;
}

/// Sets the fields of a text without special tokens: its index in the pair, which is also its type id.
void mark(Encoding& encoding, std::int8_t sequence) {
  encoding.type_ids.assign(encoding.ids.size(), sequence);
  encoding.special_tokens_mask.assign(encoding.ids.size(), 0);
  encoding.sequence_ids.assign(encoding.ids.size(), sequence);
}

/// Splits `encoding` into windows of `room` tokens; the first is the truncated encoding.
std::vector<Encoding> split(Encoding encoding, std::int64_t room, const Truncation& truncation) {
  const std::int64_t size = encoding.size();
  std::vector<Encoding> parts;
  if (size <= room) {
    parts.push_back(std::move(encoding));
    return parts;
  }
  if (room == 0) {
    parts.resize(1);
    parts.push_back(std::move(encoding));
    return parts;
  }
  if (truncation.stride >= room) {
    throw Error(fmt::format("truncation: expected a stride below the {} tokens there is room for, got {}",
                            room, truncation.stride));
  }
  const std::int64_t step = room - truncation.stride;
  for (std::int64_t at = 0;; at += step) {
    const std::int64_t rest = std::min(at + room, size);
    parts.push_back(truncation.left ? encoding.slice(size - rest, size - at) : encoding.slice(at, rest));
    if (rest == size) return parts;
  }
}

/// Returns how many tokens each of two texts may keep.
std::pair<std::int64_t, std::int64_t> rooms(std::int64_t first, std::int64_t second, std::int64_t total,
                                            Truncation::Strategy strategy) {
  if (first + second <= total) return {first, second};
  if (strategy == Truncation::Strategy::longest_first) {
    const std::int64_t shorter = std::min({first, second, total / 2});
    return first <= second ? std::pair(shorter, total - shorter) : std::pair(total - shorter, shorter);
  }
  const bool cut_first = strategy == Truncation::Strategy::only_first;
  const std::int64_t fixed = cut_first ? second : first;
  if (fixed >= total) {
    throw Error(
        fmt::format("truncation: the {} text cannot be cut to fit {} tokens, as the other has {} (cut "
                    "longest first)",
                    cut_first ? "first" : "second", total, fixed));
  }
  return cut_first ? std::pair(total - fixed, fixed) : std::pair(fixed, total - fixed);
}

/// Returns how many tokens of the text fit beside the `added` special tokens.
std::int64_t room_for_text(const Truncation& truncation, std::int64_t added) {
  if (truncation.max_length < added || truncation.stride < 0) {
    throw Error(
        fmt::format("truncation: expected a length of at least the {} tokens that are added, and a stride of "
                    "at least 0, got {} and {}",
                    added, truncation.max_length, truncation.stride));
  }
  return truncation.max_length - added;
}

void check_single(std::int64_t size, std::int64_t total, const Truncation& truncation) {
  if (size > total && truncation.strategy == Truncation::Strategy::only_second) {
    throw Error("truncation: expected a second text to cut, got one text only");
  }
}

}  // namespace

void Encoding::push(std::int64_t id, std::string token, std::pair<std::int64_t, std::int64_t> offset) {
  ids.push_back(id);
  tokens.push_back(std::move(token));
  offsets.push_back(offset);
}

void Encoding::push_special(std::int64_t id, std::string token, std::int64_t type_id) {
  push(id, std::move(token), {0, 0});
  type_ids.push_back(type_id);
  special_tokens_mask.push_back(1);
  sequence_ids.push_back(-1);
}

void Encoding::append(const Encoding& other) {
  append_to(ids, other.ids);
  append_to(tokens, other.tokens);
  append_to(offsets, other.offsets);
  append_to(type_ids, other.type_ids);
  append_to(special_tokens_mask, other.special_tokens_mask);
  append_to(sequence_ids, other.sequence_ids);
}

Encoding Encoding::slice(std::int64_t begin, std::int64_t end) const {
  HEED_ASSERT(0 <= begin && begin <= end && end <= size(), "a slice lies within the encoding");
  return {part_of(ids, begin, end),
          part_of(tokens, begin, end),
          part_of(offsets, begin, end),
          part_of(type_ids, begin, end),
          part_of(special_tokens_mask, begin, end),
          part_of(sequence_ids, begin, end)};
}

void pad(Encoding& encoding, const Padding& padding, std::int64_t longest) {
  std::int64_t length = padding.length.value_or(longest);
  if (padding.multiple_of > 0) {
    length = (length + padding.multiple_of - 1) / padding.multiple_of * padding.multiple_of;
  }
  const std::int64_t count = length - encoding.size();
  if (count <= 0) return;
  fill(encoding.ids, count, padding.left, padding.pad_id);
  fill(encoding.tokens, count, padding.left, padding.pad_token);
  fill(encoding.offsets, count, padding.left, {0, 0});
  fill(encoding.type_ids, count, padding.left, padding.pad_type_id);
  fill(encoding.special_tokens_mask, count, padding.left, std::int8_t{1});
  fill(encoding.sequence_ids, count, padding.left, std::int8_t{-1});
}

Encoding Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string storage;
  Encoding encoding = tokenize(valid(text, storage));
  mark(encoding, 0);
  return post_process(std::move(encoding), std::nullopt, add_special_tokens);
}

Encoding Tokenizer::tokenize_chat(std::string_view text, std::span<const TextSpan> data) const {
  if (data.empty()) return tokenize(text);
  throw Error(
      "encode_chat: expected a tokenizer that knows added tokens, got another kind (use a model for chats)");
}

Encoding Tokenizer::encode_chat(std::string_view text, std::span<const TextSpan> data,
                                bool add_special_tokens) const {
  if (first_invalid_utf8(text)) throw Error("encode_chat: expected UTF-8, got bytes that are not");
  Encoding encoding = tokenize_chat(text, data);
  mark(encoding, 0);
  return post_process(std::move(encoding), std::nullopt, add_special_tokens);
}

Encoding Tokenizer::encode_target(std::string_view text, bool add_special_tokens) const {
  std::string storage;
  Encoding encoding = tokenize_target(valid(text, storage));
  mark(encoding, 0);
  return post_process_target(std::move(encoding), add_special_tokens);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                bool add_special_tokens) const {
  std::string storage;
  Encoding a = tokenize(valid(first, storage));
  mark(a, 0);
  Encoding b = tokenize(valid(second, storage));
  mark(b, 1);
  return post_process(std::move(a), std::move(b), add_special_tokens);
}

std::vector<Encoding> Tokenizer::encode_windows(std::string_view first,
                                                std::optional<std::string_view> second,
                                                const Truncation& truncation, bool add_special_tokens) const {
  const std::int64_t total =
      room_for_text(truncation, add_special_tokens ? added_tokens(second.has_value()) : 0);
  std::string storage;
  Encoding a = tokenize(valid(first, storage)), b;
  mark(a, 0);
  if (second) b = tokenize(valid(*second, storage));
  mark(b, 1);
  if (!second) check_single(a.size(), total, truncation);
  const auto [room_a, room_b] =
      second ? rooms(a.size(), b.size(), total, truncation.strategy) : std::pair(total, std::int64_t{0});
  const std::vector<Encoding> parts_a = split(std::move(a), room_a, truncation);
  const std::vector<Encoding> parts_b = split(std::move(b), room_b, truncation);
  std::vector<Encoding> windows;
  const auto add = [&](std::size_t i, std::size_t k) {
    windows.push_back(
        post_process(parts_a[i], second ? std::optional(parts_b[k]) : std::nullopt, add_special_tokens));
  };
  // The order is the tokenizers library's: the truncated first text with the windows of the second comes
  // last.
  add(0, 0);
  for (std::size_t i = 1; i < parts_a.size(); ++i) {
    for (std::size_t k = 0; k < parts_b.size(); ++k) add(i, k);
  }
  for (std::size_t k = 1; k < parts_b.size(); ++k) add(0, k);
  return windows;
}

Encoding Tokenizer::encode_truncated(std::string_view first, std::optional<std::string_view> second,
                                     const Truncation& truncation, bool add_special_tokens,
                                     bool* shortened) const {
  using Strategy = Truncation::Strategy;
  const std::int64_t total =
      room_for_text(truncation, add_special_tokens ? added_tokens(second.has_value()) : 0);
  std::string storage_a, storage_b;
  const std::string_view text_a = valid(first, storage_a);
  const std::string_view text_b = second ? valid(*second, storage_b) : std::string_view();
  // The text that must not be truncated is tokenized whole, at least for the error message.
  const bool part_a = !truncation.left && !(second && truncation.strategy == Strategy::only_second);
  const bool part_b = !truncation.left && truncation.strategy != Strategy::only_first;
  std::int64_t count = total < INT64_MAX ? total + 1 : total;
  Encoding a, b;
  for (;; count *= 4) {
    a = part_a ? tokenize_prefix(text_a, count) : tokenize(text_a);
    if (second) b = part_b ? tokenize_prefix(text_b, count) : tokenize(text_b);
    // If both texts are too long, the longer one gets the odd token, so their lengths must be known.
    const bool undecided = part_a && part_b && total % 2 != 0 && a.size() >= count && b.size() >= count;
    if (!undecided || count > INT64_MAX / 4) break;
  }
  mark(a, 0);
  mark(b, 1);
  if (!second) check_single(a.size(), total, truncation);
  const auto [room_a, room_b] = second ? rooms(a.size(), b.size(), total, truncation.strategy)
                                       : std::pair(std::min(a.size(), total), std::int64_t{0});
  if (shortened != nullptr) *shortened = room_a < a.size() || room_b < b.size();
  const auto keep = [&truncation](Encoding& encoding, std::int64_t room) {
    if (room >= encoding.size()) return;
    encoding =
        truncation.left ? encoding.slice(encoding.size() - room, encoding.size()) : encoding.slice(0, room);
  };
  keep(a, room_a);
  keep(b, room_b);
  return post_process(std::move(a), second ? std::optional(std::move(b)) : std::nullopt, add_special_tokens);
}

std::int64_t Tokenizer::added_tokens(bool pair) const {
  return post_process({}, pair ? std::optional(Encoding{}) : std::nullopt, true).size();
}

}  // namespace heed
