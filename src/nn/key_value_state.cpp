// Keys and values in pages or side by side: appended, reordered, shared and shortened; and their dtypes.
#include "nn/key_value_state.h"

#include <algorithm>
#include <utility>

#include "core/pause_point.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/nn/cache_dtype.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

constexpr std::int64_t kPage = kernels::kAttentionPage, kStep = 16;  // positions
// Rows of a step after which it may be stopped: their pages may be new memory, which the system clears.
constexpr std::int64_t kWritesAtOnce = 128;

// Positions that the page which starts at `first` gets room for, when it must have `needed`.
std::int64_t capacity_of(std::int64_t first, std::int64_t needed, std::int64_t filled, std::int64_t most) {
  const std::int64_t grown = most > first ? most - first : first > 0 ? kPage : 2 * filled;
  const std::int64_t least = grown >= needed ? needed : (needed + kStep - 1) / kStep * kStep;
  return std::min(kPage, std::max(grown, least));
}

// It is 0: listeners multiply what a shorter row lacks by weights of 0, which NaN would survive.
KeyValuePage page_like(const Tensor& k, const Tensor& v, std::int64_t capacity) {
  const auto like = [&](const Tensor& x) {
    return Tensor::zeros({x.size(-3), capacity, x.size(-1)}, x.dtype());
  };
  return {like(k), like(v)};
}

// Positions [first, first + count) of a page, as those of one row: [1, K, count, d].
Tensor positions_of(const Tensor& page, std::int64_t first, std::int64_t count) {
  return unsqueeze(slice(page, 1, first, first + count), 0);
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

void KeyValueState::own(Row& row, std::int64_t i, std::int64_t needed, std::int64_t capacity,
                        std::int64_t filled, const Tensor& k, const Tensor& v) {
  HEED_ASSERT(i <= std::ssize(row), "pages follow one another");
  if (i == std::ssize(row)) {
    row.emplace_back(page_like(k, v, capacity));
    return;
  }
  PageOwner& owner = row[static_cast<std::size_t>(i)];
  const KeyValuePage& old = owner.page();
  if (owner.is_alone() && old.capacity() >= needed) return;
  PageOwner added(page_like(k, v, capacity));
  if (filled > 0) {
    const PageWrite all{0, 0, filled, &added.page(), 0};
    write_pages(positions_of(old.keys, 0, filled), positions_of(old.values, 0, filled), {&all, 1});
  }
  owner = std::move(added);
}

void KeyValueState::append(const Tensor& keys, const Tensor& values, const SequenceLengths& past,
                           CacheDType dtype, std::int64_t most) {
  refuse_gradient("key-value cache", {keys, values});
  if (dtype != dtype_) {
    if (past.longest > 0) refuse_dtype(dtype, dtype_);
    rows_.clear();
    dtype_ = dtype;
  }
  const Tensor k = to_cache(keys, dtype), v = to_cache(values, dtype);
  if (rows_.empty()) rows_.resize(static_cast<std::size_t>(k.size(0)));
  HEED_ASSERT(std::ssize(rows_) == k.size(0), "the rows of the state");
  std::vector<PageWrite> writes;
  for (std::int64_t row = 0; row < k.size(0); ++row) {
    Row& pages = rows_[static_cast<std::size_t>(row)];
    const std::int64_t begin = past.of(row), end = begin + k.size(2);
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t i = at / kPage, first = i * kPage, next = std::min(first + kPage, end);
      const std::int64_t filled = at - first, needed = next - first;
      own(pages, i, needed, capacity_of(first, needed, filled, most), filled, k, v);
      writes.push_back({row, at - begin, next - at, &pages[static_cast<std::size_t>(i)].page(), filled});
      at = next;
    }
    // Tokens that were forgotten, or padding beside a longer row.
    pages.erase(pages.begin() + (end + kPage - 1) / kPage, pages.end());
    if (std::ssize(writes) < kWritesAtOnce) continue;
    write_pages(k, v, std::exchange(writes, {}));
    pause_point();
  }
  write_pages(k, v, writes);
}

std::vector<std::vector<const KeyValuePage*>> KeyValueState::pages() const {
  std::vector<std::vector<const KeyValuePage*>> all;
  for (const Row& row : rows_) {
    all.emplace_back();
    for (const PageOwner& owner : row) all.back().push_back(&owner.page());
  }
  return all;
}

Tensor KeyValueState::gathered(std::int64_t length, Tensor KeyValuePage::*which) const {
  const Tensor& like = rows_.front().front().page().*which;
  const Tensor all = Tensor::zeros({std::ssize(rows_), like.size(0), length, like.size(2)}, like.dtype());
  for (std::int64_t row = 0; row < std::ssize(rows_); ++row) {
    std::int64_t first = 0;
    for (const PageOwner& owner : rows_[static_cast<std::size_t>(row)]) {
      const std::int64_t count = std::min(owner.page().capacity(), length - first);
      if (count <= 0) break;
      slice(slice(all, 0, row, row + 1), 2, first, first + count)
          .copy_from(positions_of(owner.page().*which, 0, count));
      first += kPage;
    }
  }
  return all;
}

Tensor KeyValueState::keys(std::int64_t length) const { return gathered(length, &KeyValuePage::keys); }
Tensor KeyValueState::values(std::int64_t length) const { return gathered(length, &KeyValuePage::values); }

void KeyValueState::reorder(const RowReorder& rows) {
  if (rows_.empty()) return;
  std::vector<Row> before = std::exchange(rows_, {});
  struct Move {
    std::size_t row;
    std::int64_t page, first;
    Tensor keys, values;  // [1, K, count, d]: copied first, as pages are overwritten
  };
  std::vector<Move> moves;
  for (std::size_t row = 0; row < rows.from.size(); ++row) {
    const auto from = static_cast<std::size_t>(rows.from[row]);
    const std::int64_t last = rows.lengths[row] / kPage, rest = rows.lengths[row] % kPage;
    const Row& parent = before[from];
    Row& taken = rows_.emplace_back(parent.begin(), parent.begin() + last);
    if (rest == 0) continue;
    const bool has_own = row < before.size() && last < std::ssize(before[row]);
    taken.push_back((has_own ? before[row] : parent)[static_cast<std::size_t>(last)]);
    const std::int64_t first = has_own ? std::max<std::int64_t>(rows.common[row] - last * kPage, 0) : rest;
    if (from == row || first >= rest) continue;
    const KeyValuePage& page = parent[static_cast<std::size_t>(last)].page();
    moves.push_back({row, last, first, positions_of(page.keys, first, rest - first).clone(),
                     positions_of(page.values, first, rest - first).clone()});
  }
  before.clear();  // what no row has any more
  for (const Move& move : moves) {
    const std::int64_t count = move.keys.size(2), needed = move.first + count;
    Row& row = rows_[move.row];
    own(row, move.page, needed, std::max(needed, row.back().page().capacity()), move.first, move.keys,
        move.values);
    const PageWrite rest{0, 0, count, &row.back().page(), move.first};
    write_pages(move.keys, move.values, {&rest, 1});
  }
}

void KeyValueState::join(const PartState& other, const RowJoin&) {
  const auto& more = static_cast<const KeyValueState&>(other);
  if (more.dtype_ != dtype_) refuse_dtype(more.dtype_, dtype_);
  rows_.insert(rows_.end(), more.rows_.begin(), more.rows_.end());
}

std::unique_ptr<PartState> KeyValueState::copy_row(std::int64_t row, std::int64_t,
                                                   std::int64_t length) const {
  auto copy = std::make_unique<KeyValueState>();
  const Row& pages = rows_[static_cast<std::size_t>(row)];
  copy->dtype_ = dtype_;
  copy->rows_.emplace_back(pages.begin(), pages.begin() + (length + kPage - 1) / kPage);
  return copy;
}

std::size_t KeyValueState::bytes() const {
  std::size_t sum = 0;
  for (const Row& row : rows_) {
    for (const PageOwner& owner : row) sum += bytes_of(owner.page().keys) + bytes_of(owner.page().values);
  }
  return sum;
}

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
    Tensor all = Tensor::zeros({count, own.size(1), length, own.size(3)}, own.dtype());
    slice(slice(all, 0, 0, rows.rows), 2, 0, own.size(2)).copy_from(own);
    slice(slice(all, 0, rows.rows, count), 2, 0, others.size(2)).copy_from(others);
    return all;
  };
  keys_ = joined(keys_, more.keys_);
  values_ = joined(values_, more.values_);
}

std::size_t MemoryState::bytes() const { return bytes_of(keys_) + bytes_of(values_); }

std::string_view name_of(CacheDType dtype) {
  switch (dtype) {
    case CacheDType::f32: return "f32";
    case CacheDType::bf16: return "bf16";
    case CacheDType::f16: return "f16";
    case CacheDType::int8: return "int8";
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

std::optional<CacheDType> cache_dtype_from_name(std::string_view name) {
  for (const CacheDType dtype : kCacheDTypes) {
    if (name == name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

std::int64_t cache_bytes(CacheDType dtype, std::int64_t d) {
  switch (dtype) {
    case CacheDType::f32: return 4 * d;
    case CacheDType::bf16:
    case CacheDType::f16: return 2 * d;
    case CacheDType::int8: return static_cast<std::int64_t>(sizeof(float)) + d;  // the scale
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

Tensor to_cache(const Tensor& x, CacheDType dtype) {
  switch (dtype) {
    case CacheDType::f32: return x;
    case CacheDType::bf16: return x.to(DType::bf16);
    case CacheDType::f16: return x.to(DType::f16);
    case CacheDType::int8: return int8_rows(x);
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

}  // namespace heed
