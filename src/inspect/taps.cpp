// Parses names of taps, joins what the steps of a decoding compute, and takes replacements apart for them.
#include "inspect/taps.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::inspect {
namespace {

[[noreturn]] void refuse_tap(const std::string& text) {
  throw Error("expected NAME or NAME[heads=0:4,queries=3,keys=:8], got " + text);
}

std::optional<std::int64_t> index_in(const std::string& digits) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < 0) return std::nullopt;
  return value;
}

// Which axes of a value count tokens: those of the step, and all so far.
TapAxes axes_of(const std::string& name, const Tensor& value) {
  if (name.ends_with(".k") || name.ends_with(".v") || name.ends_with(".transformed")) return kKeyAxes;
  if (name.ends_with(".scores") || name.ends_with(".weights")) return kScoreAxes;
  if (value.rank() == 4) return kQueryAxes;
  return value.rank() == 3 ? kTokenAxes : TapAxes{-1, 0, -1};  // logits [rows, V], one row
}

Tensor part_of(const Tensor& value, int axis, const TapRange& range, const std::string& name) {
  if (axis < 0 || range.all()) return value;
  const std::int64_t size = value.size(axis), end = range.end.value_or(size);
  if (range.begin >= size || end > size)
    throw Error("tap " + name + ": expected positions of the " + std::to_string(size) + " of the text, got " +
                std::to_string(range.begin) + ":" + (range.end ? std::to_string(end) : ""));
  return slice(value, axis, range.begin, end);
}

// `value` with `size` keys: what is missing at the end is that of keys that a query does not see.
Tensor with_keys(const std::string& name, const Tensor& value, std::int64_t size) {
  if (value.size(3) == size) return value;
  if (value.size(3) > size) return slice(value, 3, 0, size);
  std::vector<std::int64_t> shape(value.shape().begin(), value.shape().end());
  shape[3] = size - value.size(3);
  const double unseen = name.ends_with(".scores") ? -std::numeric_limits<double>::infinity() : 0.0;
  return concat({value, Tensor::full(Shape(std::span<const std::int64_t>(shape)), unseen, value.dtype())}, 3);
}

// The listener's value with the rows of `given` whose positions, from `begin` on, are in this step.
void put_positions(const std::string& name, Tensor& value, Tensor given, std::int64_t first,
                   std::int64_t begin) {
  const TapAxes axes = axes_of(name, value);
  const int axis = axes.queries >= 0 ? axes.queries : axes.keys;
  if (axes.queries < 0) first = 0;  // keys and values: all so far
  const std::int64_t from = std::max(first, begin);
  const std::int64_t to = std::min(first + value.size(axis), begin + given.size(axis));
  if (from >= to) return;
  given = slice(given, axis, from - begin, to - begin);
  if (axes.queries >= 0 && axes.keys >= 0) given = with_keys(name, given, value.size(axes.keys));
  Tensor changed = value.clone();
  slice(changed, axis, from - first, to - first).copy_from(given.to(value.dtype()));
  value = changed;
}

// Throws Error unless the shapes are equal but for the axes that count tokens.
void check_replacement(const std::string& where, const std::string& name, const Tensor& given,
                       const Tensor& value) {
  const TapAxes axes = axes_of(name, value);
  bool fits = given.rank() == value.rank();
  for (int axis = 0; fits && axis < value.rank(); ++axis)
    fits = axis == axes.queries || axis == axes.keys || given.size(axis) == value.size(axis);
  if (!fits)
    throw Error(where + ": " + name + ": expected a replacement like " + value.str() +
                ", with any number of positions, got " + given.str());
}

}  // namespace

std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  const std::string number = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(number);
}

void check_position(const char* what, std::int64_t position, std::int64_t count) {
  if (position < 0 || position >= count)
    throw Error(std::string(what) + ": expected a position below " + std::to_string(count) + ", got " +
                std::to_string(position));
}

std::vector<std::string> split_taps(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<TapRange> tap_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string begin = text.substr(0, colon);
  const std::optional<std::int64_t> first = begin.empty() ? 0 : index_in(begin);
  if (!first || text.empty()) return std::nullopt;
  if (colon == std::string::npos) return TapRange{*first, *first + 1};
  if (colon + 1 == text.size()) return TapRange{*first, std::nullopt};
  const std::optional<std::int64_t> end = index_in(text.substr(colon + 1));
  if (!end || *end <= *first) return std::nullopt;
  return TapRange{*first, end};
}

TapRequest parse_tap(const std::string& text) {
  constexpr std::int64_t kMostHeads = 1 << 16;
  const std::size_t open = text.find('[');
  TapRequest request{text.substr(0, open), open == std::string::npos ? "" : text.substr(open), {}};
  if (request.pattern.empty()) refuse_tap(text);
  if (request.brackets.empty()) return request;
  if (!text.ends_with("]")) refuse_tap(text);
  const std::string inside = request.brackets.substr(1, request.brackets.size() - 2);
  for (const std::string& part : split_taps(inside)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) refuse_tap(text);
    const std::string axis = part.substr(0, equals);
    const std::optional<TapRange> range = tap_range(part.substr(equals + 1));
    if (!range) refuse_tap(text);
    if (axis == "queries") {
      request.selection.queries = *range;
    } else if (axis == "keys") {
      request.selection.keys = *range;
    } else if (axis == "heads" && range->end && *range->end <= kMostHeads) {
      for (std::int64_t head = range->begin; head < *range->end; ++head)
        request.selection.heads.push_back(head);
    } else {
      refuse_tap(text);
    }
  }
  return request;
}

void GeneratedTaps::record(const std::vector<TapRequest>& requests) {
  for (const TapRequest& request : requests) {
    taps_.listen(request.pattern, {.heads = request.selection.heads, .queries = {}, .keys = {}},
                 [this, request](const std::string& name, Tensor& value) {
                   Recorded& recorded = recorded_[name + request.brackets];
                   recorded.selection = request.selection;
                   const bool keys_only = axes_of(name, value).queries < 0;
                   if (keys_only || taps_.first_position() == 0) {
                     for (const Piece& piece : recorded.pieces) numbers_ -= piece.value.numel();
                     recorded.pieces.clear();
                   }
                   // Two requests may name the same value.
                   if (!recorded.pieces.empty() && recorded.pieces.back().first == taps_.first_position()) {
                     numbers_ -= recorded.pieces.back().value.numel();
                     recorded.pieces.pop_back();
                   }
                   recorded.pieces.push_back({taps_.first_position(), value.detach().clone()});
                   numbers_ += value.numel();
                 });
  }
}

void GeneratedTaps::replace(const TapRequest& request, const Tensor& given, const std::string& where) {
  if (!request.selection.keys.all())
    throw Error(where + ": " + request.pattern + request.brackets +
                ": expected a replacement for all keys while text is generated, got a selection of keys");
  taps_.listen(
      request.pattern, {.heads = request.selection.heads, .queries = {}, .keys = {}},
      [this, given, begin = request.selection.queries.begin, where](const std::string& name, Tensor& value) {
        check_replacement(where, name, given, value);
        put_positions(name, value, given, taps_.first_position(), begin);
      });
}

TensorMap GeneratedTaps::recorded() const {
  TensorMap values;
  for (const auto& [key, recorded] : recorded_) {
    const std::string name = key.substr(0, key.find('['));
    const TapAxes axes = axes_of(name, recorded.pieces.front().value);
    std::vector<Tensor> pieces;
    std::int64_t keys = 0;
    for (const Piece& piece : recorded.pieces)
      keys = axes.keys >= 0 ? std::max(keys, piece.value.size(axes.keys)) : 0;
    for (const Piece& piece : recorded.pieces)
      pieces.push_back(axes.queries >= 0 && axes.keys >= 0 ? with_keys(name, piece.value, keys)
                                                           : piece.value);
    Tensor all = pieces.size() == 1 ? pieces.front() : concat(pieces, axes.queries);
    all = part_of(all, axes.queries, recorded.selection.queries, name);
    values[key] = part_of(all, axes.keys, recorded.selection.keys, name).contiguous();
  }
  return values;
}

}  // namespace heed::inspect
