// The keys and values that attention remembers: those of the tokens so far, and those of a memory.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "heed/nn/cache_dtype.h"
#include "heed/nn/part.h"
#include "ops/attention.h"

namespace heed {

/// A page that several rows may have, of one state or of several; the last one frees it. Threads: each owner
/// is used by one at a time; what is_alone() tells comes after all that the others did with the page.
class PageOwner {
 public:
  explicit PageOwner(KeyValuePage page) : held_(new Held{std::move(page)}) {}
  PageOwner(const PageOwner& other) : held_(other.held_) {
    if (held_ != nullptr) held_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  PageOwner(PageOwner&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  PageOwner& operator=(PageOwner other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~PageOwner() {
    if (held_ != nullptr && held_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held_;
  }
  bool is_alone() const { return held_->owners.load(std::memory_order_acquire) == 1; }
  const KeyValuePage& page() const { return held_->page; }

 private:
  struct Held {
    KeyValuePage page;
    std::atomic<std::int64_t> owners = 1;
  };
  Held* held_;
};

/// Keys and values of the tokens so far, as their dtype stores them. Rows may have different lengths. Each
/// has pages of its own; those that are equal to another's may be the same ones, until one is written to.
class KeyValueState final : public PartState {
 public:
  /// Writes k and v [R, K, T, d] after the first past.of(row) positions of each row, of which there will be
  /// `most`, if that is not 0. Throws Error where earlier positions are stored in another dtype.
  void append(const Tensor& k, const Tensor& v, const SequenceLengths& past, CacheDType dtype,
              std::int64_t most = 0);
  /// The pages of each row, valid until a function that is not const is called.
  std::vector<std::vector<const KeyValuePage*>> pages() const;
  // Copies of the first `length` positions, [R, K, length, d], stored as to_cache() does. What a shorter row
  // lacks is 0.
  Tensor keys(std::int64_t length) const;
  Tensor values(std::int64_t length) const;

  /// A row takes the pages of its new parent; of the last one, where it has one itself, only the positions
  /// that differ are copied. For beams, these are few.
  void reorder(const RowReorder& rows) override;
  void truncate(std::int64_t) override {}  // the next tokens overwrite what is forgotten
  void join(const PartState& other, const RowJoin& rows) override;
  std::unique_ptr<PartState> copy_row(std::int64_t row, std::int64_t row_length,
                                      std::int64_t length) const override;
  std::int64_t chunk_size() const override { return 1; }
  /// Of pages that several rows have, for each of them.
  std::size_t bytes() const override;

 private:
  using Row = std::vector<PageOwner>;
  // Makes page i of a row, or the next one, one that no other row has, with room for `needed` positions and
  // the first `filled` of what it had. A new one has `capacity` of them and the shape of k and v [R, K, T,
  // d].
  static void own(Row& row, std::int64_t i, std::int64_t needed, std::int64_t capacity, std::int64_t filled,
                  const Tensor& k, const Tensor& v);
  Tensor gathered(std::int64_t length, Tensor KeyValuePage::*which) const;

  CacheDType dtype_ = CacheDType::f32;
  std::vector<Row> rows_;
};

/// Keys and values of a memory, [R, K, S, d]: they do not grow. They are exact until store_as().
class MemoryState final : public PartState {
 public:
  MemoryState(const Tensor& memory_keys, const Tensor& memory_values);
  /// Stores them in this dtype from now on. Throws Error where they are in another that is not exact.
  void store_as(CacheDType dtype);
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  void reorder(const RowReorder& rows) override;
  void truncate(std::int64_t) override {}  // it holds no tokens
  /// Memories shorter than the longest are padded; the mask of the pass must hide that.
  void join(const PartState& other, const RowJoin& rows) override;
  std::int64_t chunk_size() const override { return 1; }
  std::size_t bytes() const override;

 private:
  CacheDType dtype_ = CacheDType::f32;
  Tensor keys_, values_;
};

}  // namespace heed
