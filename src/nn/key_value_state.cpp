#include "nn/key_value_state.h"

#include <algorithm>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// A store of [R, K, capacity, d] with more room; the first `filled` positions are kept. The rest is 0:
// attention multiplies what a shorter row lacks by weights of 0, which NaN would survive.
Tensor with_capacity(const Tensor& store, const Tensor& like, std::int64_t filled, std::int64_t capacity) {
  Tensor larger = Tensor::zeros({like.size(0), like.size(1), capacity, like.size(3)}, like.dtype());
  if (filled > 0) slice(larger, 2, 0, filled).copy_from(slice(store, 2, 0, filled));
  return larger;
}

// Positions [first, first + count) of one row of a store, as one block per head.
Tensor block_of(const Tensor& store, std::int64_t row, std::int64_t first, std::int64_t count) {
  return slice(slice(store, 0, row, row + 1), 2, first, first + count);
}

std::size_t bytes_of(const Tensor& t) {
  return t.defined() ? static_cast<std::size_t>(t.numel()) * size_of(t.dtype()) : 0;
}

[[noreturn]] void refuse_dtype(CacheDType dtype, CacheDType stored) {
  throw Error("key-value cache: expected cache_dtype " + std::string(name_of(stored)) +
              ", in which earlier steps stored keys and values, got " + std::string(name_of(dtype)));
}

Tensor index_of(const RowReorder& rows) {
  return Tensor::from(rows.from, {static_cast<std::int64_t>(rows.from.size())});
}

}  // namespace

void KeyValueState::reserve(const Tensor& k, const Tensor& v, std::int64_t filled, std::int64_t length,
                            std::int64_t most) {
  if (keys_.defined() && keys_.size(2) >= length) return;
  constexpr std::int64_t kStep = 16, kAtOnce = 512;  // positions; the latter where the end is known
  const std::int64_t grown = most > 0 ? std::min(most, std::max(4 * filled, kAtOnce)) : 2 * filled;
  const std::int64_t capacity = std::max(grown, (length + kStep - 1) / kStep * kStep);
  keys_ = with_capacity(keys_, k, filled, capacity);
  values_ = with_capacity(values_, v, filled, capacity);
}

void KeyValueState::append(const Tensor& keys, const Tensor& values, const SequenceLengths& past,
                           CacheDType dtype, std::int64_t most) {
  refuse_gradient("key-value cache", {keys, values});
  if (dtype != dtype_) {
    if (past.longest > 0) refuse_dtype(dtype, dtype_);
    keys_ = values_ = {};
    dtype_ = dtype;
  }
  const Tensor k = to_cache(keys, dtype), v = to_cache(values, dtype);
  const std::int64_t time = k.size(2);
  reserve(k, v, past.longest, past.longest + time, most);
  if (past.each.empty()) {
    slice(keys_, 2, past.longest, past.longest + time).copy_from(k);
    slice(values_, 2, past.longest, past.longest + time).copy_from(v);
    return;
  }
  for (std::int64_t row = 0; row < k.size(0); ++row) {
    block_of(keys_, row, past.of(row), time).copy_from(slice(k, 0, row, row + 1));
    block_of(values_, row, past.of(row), time).copy_from(slice(v, 0, row, row + 1));
  }
}

Tensor KeyValueState::keys(std::int64_t length) const { return slice(keys_, 2, 0, length); }
Tensor KeyValueState::values(std::int64_t length) const { return slice(values_, 2, 0, length); }

void KeyValueState::reorder(const RowReorder& rows) {
  if (!keys_.defined()) return;
  if (static_cast<std::int64_t>(rows.from.size()) <= keys_.size(0)) return reorder_in_place(rows);
  keys_ = gather(keys_, 0, index_of(rows));
  values_ = gather(values_, 0, index_of(rows));
}

void KeyValueState::reorder_in_place(const RowReorder& rows) {
  struct Move {
    std::int64_t row, first;
    Tensor keys, values;
  };
  std::vector<Move> moves;  // copied first, as rows are overwritten
  for (std::size_t row = 0; row < rows.from.size(); ++row) {
    const std::int64_t from = rows.from[row], first = rows.common[row], count = rows.lengths[row] - first;
    if (from == static_cast<std::int64_t>(row) || count == 0) continue;
    moves.push_back({static_cast<std::int64_t>(row), first, block_of(keys_, from, first, count).clone(),
                     block_of(values_, from, first, count).clone()});
  }
  for (const Move& move : moves) {
    block_of(keys_, move.row, move.first, move.keys.size(2)).copy_from(move.keys);
    block_of(values_, move.row, move.first, move.values.size(2)).copy_from(move.values);
  }
  const auto count = static_cast<std::int64_t>(rows.from.size());
  keys_ = slice(keys_, 0, 0, count);
  values_ = slice(values_, 0, 0, count);
}

std::size_t KeyValueState::bytes() const { return bytes_of(keys_) + bytes_of(values_); }

MemoryState::MemoryState(const Tensor& memory_keys, const Tensor& memory_values)
    : keys_(memory_keys.contiguous()), values_(memory_values.contiguous()) {
  refuse_gradient("key-value cache", {keys_, values_});
}

void MemoryState::store_as(CacheDType dtype) {
  if (dtype == dtype_) return;
  if (dtype_ != CacheDType::f32) refuse_dtype(dtype, dtype_);
  keys_ = to_cache(keys_, dtype);
  values_ = to_cache(values_, dtype);
  dtype_ = dtype;
}

void MemoryState::reorder(const RowReorder& rows) {
  // Beams of one source share its memory, so a reordering among them changes nothing.
  const bool same =
      std::find(rows.same_source.begin(), rows.same_source.end(), false) == rows.same_source.end();
  const auto count = static_cast<std::int64_t>(rows.from.size());
  if (same && count <= keys_.size(0)) {
    keys_ = slice(keys_, 0, 0, count);
    values_ = slice(values_, 0, 0, count);
    return;
  }
  keys_ = gather(keys_, 0, index_of(rows));
  values_ = gather(values_, 0, index_of(rows));
}

std::size_t MemoryState::bytes() const { return bytes_of(keys_) + bytes_of(values_); }

}  // namespace heed
