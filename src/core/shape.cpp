// Shapes: strides, broadcasting, and their text.
#include "heed/shape.h"

#include <algorithm>

#include "heed/error.h"

namespace heed {

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  for (std::int64_t size : sizes) push_back(size);
}

int Shape::normalize(int axis) const {
  const int from_start = axis < 0 ? axis + rank_ : axis;
  if (from_start < 0 || from_start >= rank_) {
    throw Error("axis: expected one of the " + std::to_string(rank_) + " axes of " + str() + ", got " +
                std::to_string(axis));
  }
  return from_start;
}

std::int64_t Shape::numel() const {
  std::int64_t count = 1;
  for (std::int64_t size : *this) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      throw Error("shape: expected sizes whose product fits 63 bits, got " + str());
    }
  }
  return count;
}

void Shape::push_back(std::int64_t size) {
  if (rank_ == kMaxRank) {
    throw Error("shape: expected at most " + std::to_string(kMaxRank) + " axes, got more");
  }
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Shape::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(sizes_[static_cast<std::size_t>(axis)]);
  }
  return text + "]";
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

Shape broadcast_shapes(const char* where, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int axis = 1; axis <= shorter.rank(); ++axis) {
    const std::int64_t x = longer[-axis], y = shorter[-axis];
    if (x != y && x != 1 && y != 1) {
      throw Error(std::string(where) + ": expected shapes that broadcast, got " + a.str() + " and " +
                  b.str());
    }
    result[-axis] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace heed
