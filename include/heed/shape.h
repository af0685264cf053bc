// Shape: the sizes (or strides) of a tensor's axes, stored inline so that views need no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "heed/export.h"

namespace HEED_API heed {

/// Threads: several may read one object at once.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  /// Size of an axis; negative axes count from the end. Throws Error for an axis out of range.
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(normalize(axis))]; }
  std::int64_t& operator[](int axis) { return sizes_[static_cast<std::size_t>(normalize(axis))]; }
  /// The axis counted from 0. Throws Error for an axis out of range.
  int normalize(int axis) const;
  /// Product of the sizes, 1 for rank 0. Throws Error on overflow or a negative size.
  std::int64_t numel() const;
  void push_back(std::int64_t size);

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::int64_t* begin() { return sizes_.data(); }
  std::int64_t* end() { return sizes_.data() + rank_; }

  bool operator==(const Shape& other) const;
  /// "[2, 3, 4]"
  std::string str() const;

 private:
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> sizes_{};
};

/// Strides (in elements) of a row-major tensor of this shape.
Shape contiguous_strides(const Shape& shape);

/// The shape to which two operands broadcast (NumPy's rules). Throws Error `where: expected shapes that
/// broadcast, got ...`.
Shape broadcast_shapes(const char* where, const Shape& a, const Shape& b);

}  // namespace heed
