#include "nn/key_value_state.h"

#include <algorithm>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

constexpr std::int64_t kStep = 16, kAtOnce = 512;  // positions; the latter where the end is known

// A store of [rows, K, capacity, d] with the first `filled` positions of `kept` [R, K, S, d], if there are
// any. The rest is 0: attention multiplies what a shorter row lacks by weights of 0, which NaN would survive.
Tensor store_of(std::int64_t rows, std::int64_t capacity, const Tensor& like, const Tensor& kept,
                std::int64_t filled) {
  Tensor store = Tensor::zeros({rows, like.size(1), capacity, like.size(3)}, like.dtype());
  if (filled > 0) slice(slice(store, 0, 0, kept.size(0)), 2, 0, filled).copy_from(slice(kept, 2, 0, filled));
  return store;
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
  const std::int64_t grown = most > 0 ? std::min(most, std::max(4 * filled, kAtOnce)) : 2 * filled;
  const std::int64_t capacity = std::max(grown, (length + kStep - 1) / kStep * kStep);
  keys_ = store_of(k.size(0), capacity, k, filled > 0 ? keys(filled) : Tensor(), filled);
  values_ = store_of(v.size(0), capacity, v, filled > 0 ? values(filled) : Tensor(), filled);
  rows_ = k.size(0);
}

void KeyValueState::resize(std::int64_t rows, std::int64_t capacity, std::int64_t filled) {
  keys_ = store_of(rows, capacity, keys_, keys(filled), filled);
  values_ = store_of(rows, capacity, values_, values(filled), filled);
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
    slice(this->keys(past.longest + time), 2, past.longest, past.longest + time).copy_from(k);
    slice(this->values(past.longest + time), 2, past.longest, past.longest + time).copy_from(v);
    return;
  }
  for (std::int64_t row = 0; row < k.size(0); ++row) {
    block_of(keys_, row, past.of(row), time).copy_from(slice(k, 0, row, row + 1));
    block_of(values_, row, past.of(row), time).copy_from(slice(v, 0, row, row + 1));
  }
}

Tensor KeyValueState::keys(std::int64_t length) const {
  return slice(slice(keys_, 0, 0, rows_), 2, 0, length);
}
Tensor KeyValueState::values(std::int64_t length) const {
  return slice(slice(values_, 0, 0, rows_), 2, 0, length);
}

void KeyValueState::reorder(const RowReorder& rows) {
  if (!keys_.defined()) return;
  const std::int64_t before = std::exchange(rows_, static_cast<std::int64_t>(rows.from.size()));
  if (rows_ > keys_.size(0)) {
    keys_ = gather(slice(keys_, 0, 0, before), 0, index_of(rows));
    values_ = gather(slice(values_, 0, 0, before), 0, index_of(rows));
    return;
  }
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
}

void KeyValueState::join(const PartState& other, const RowJoin& rows) {
  const auto& more = static_cast<const KeyValueState&>(other);
  if (more.dtype_ != dtype_) refuse_dtype(more.dtype_, dtype_);
  const std::int64_t count = rows.rows + rows.more_rows, room = keys_.size(0);
  const std::int64_t longest = std::max(rows.longest, rows.more_longest);
  // A long row that has left may have left much room behind.
  const std::int64_t capacity = std::clamp(keys_.size(2), longest, 4 * longest + kAtOnce);
  if (count > room || capacity != keys_.size(2))
    resize(count > room ? std::max(count, 2 * room) : room, capacity, rows.longest);
  rows_ = count;
  const auto append = [&](const Tensor& store, const Tensor& from) {
    slice(slice(store, 0, rows.rows, count), 2, 0, rows.more_longest).copy_from(from);
  };
  append(keys_, more.keys(rows.more_longest));
  append(values_, more.values(rows.more_longest));
}

std::unique_ptr<PartState> KeyValueState::copy_row(std::int64_t row, std::int64_t, std::int64_t length,
                                                   std::int64_t room) const {
  auto copy = std::make_unique<KeyValueState>();
  copy->dtype_ = dtype_;
  copy->rows_ = 1;
  copy->keys_ = store_of(1, length + room, keys_, block_of(keys_, row, 0, length), length);
  copy->values_ = store_of(1, length + room, values_, block_of(values_, row, 0, length), length);
  return copy;
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

void MemoryState::join(const PartState& other, const RowJoin& rows) {
  const auto& more = static_cast<const MemoryState&>(other);
  if (more.dtype_ != dtype_) refuse_dtype(more.dtype_, dtype_);
  const std::int64_t count = rows.rows + rows.more_rows, length = std::max(keys_.size(2), more.keys_.size(2));
  const auto joined = [&](const Tensor& own, const Tensor& others) {
    const Tensor all = store_of(count, length, own, own, own.size(2));
    slice(slice(all, 0, rows.rows, count), 2, 0, others.size(2)).copy_from(others);
    return all;
  };
  keys_ = joined(keys_, more.keys_);
  values_ = joined(values_, more.values_);
}

std::size_t MemoryState::bytes() const { return bytes_of(keys_) + bytes_of(values_); }

}  // namespace heed
