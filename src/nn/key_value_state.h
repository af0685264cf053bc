// The keys and values that attention remembers: those of the tokens so far, and those of a memory.
#pragma once

#include "heed/nn/part.h"

namespace heed {

/// Keys and values of the tokens so far. Rows may have different lengths.
class KeyValueState final : public PartState {
 public:
  /// Writes k and v [R, K, T, d] after the first past.of(row) positions of each row.
  void append(const Tensor& k, const Tensor& v, const SequenceLengths& past);
  // Views of the first `length` positions, [R, K, length, d].
  Tensor keys(std::int64_t length) const;
  Tensor values(std::int64_t length) const;

  /// With no more rows than before, a row copies only the positions that differ from its new parent; for
  /// beams, these are few.
  void reorder(const RowReorder& rows) override;
  void truncate(std::int64_t) override {}  // the next tokens overwrite what is forgotten
  std::size_t bytes() const override;

 private:
  void reserve(const Tensor& k, const Tensor& v, std::int64_t filled, std::int64_t length);
  void reorder_in_place(const RowReorder& rows);

  Tensor keys_;    // [R, K, capacity, d]
  Tensor values_;  // [R, K, capacity, e]
};

/// Keys and values of a memory, [R, K, S, d]: they do not grow.
class MemoryState final : public PartState {
 public:
  MemoryState(const Tensor& memory_keys, const Tensor& memory_values);
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  void reorder(const RowReorder& rows) override;
  void truncate(std::int64_t) override {}  // it holds no tokens
  std::size_t bytes() const override;

 private:
  Tensor keys_, values_;
};

}  // namespace heed
