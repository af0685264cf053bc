// Joins what the steps of a decoding compute, and takes replacements apart for them.
#include "inspect/generated_taps.h"

#include <algorithm>
#include <limits>

#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::inspect {
namespace {

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
