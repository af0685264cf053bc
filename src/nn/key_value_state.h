// The keys and values that attention remembers: those of the tokens so far, and those of a memory.
#pragma once

#include "heed/nn/cache_dtype.h"
#include "heed/nn/part.h"

namespace heed {

/// Keys and values of the tokens so far, as their dtype stores them. Rows may have different lengths.
class KeyValueState final : public PartState {
 public:
  /// Writes k and v [R, K, T, d] after the first past.of(row) positions of each row, of which there will be
  /// `most`, if that is not 0. Throws Error where earlier positions are stored in another dtype.
  void append(const Tensor& k, const Tensor& v, const SequenceLengths& past, CacheDType dtype,
              std::int64_t most = 0);
  // Views of the first `length` positions, [R, K, length, d], stored as to_cache() does.
  Tensor keys(std::int64_t length) const;
  Tensor values(std::int64_t length) const;

  /// With no more rows than before, a row copies only the positions that differ from its new parent; for
  /// beams, these are few.
  void reorder(const RowReorder& rows) override;
  void truncate(std::int64_t) override {}  // the next tokens overwrite what is forgotten
  /// Copies the new rows alone while there is room for them; room for rows grows by doubling.
  void join(const PartState& other, const RowJoin& rows) override;
  std::unique_ptr<PartState> copy_row(std::int64_t row, std::int64_t row_length, std::int64_t length,
                                      std::int64_t room) const override;
  std::int64_t granule() const override { return 1; }
  std::size_t bytes() const override;

 private:
  void reserve(const Tensor& k, const Tensor& v, std::int64_t filled, std::int64_t length, std::int64_t most);
  // Makes room for `rows` rows of `capacity` positions, and keeps the first `filled` of each.
  void resize(std::int64_t rows, std::int64_t capacity, std::int64_t filled);

  CacheDType dtype_ = CacheDType::f32;
  std::int64_t rows_ = 0;  // that are in use, the first ones
  Tensor keys_;            // [rows, K, capacity, d]
  Tensor values_;          // [rows, K, capacity, e]
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
  std::int64_t granule() const override { return 1; }
  std::size_t bytes() const override;

 private:
  CacheDType dtype_ = CacheDType::f32;
  Tensor keys_, values_;
};

}  // namespace heed
