// Rows of a tensor that are computed when they are read: by a product that rounds them, each just before, or
// all of them, when their address is asked for. So an embedding or a norm and the map after it are one pass
// over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "heed/buffer.h"
#include "heed/tensor.h"

namespace heed {

/// Fewer rows are computed at once: with so few, a product does not wait for memory.
inline constexpr std::int64_t kFewestComputedRows = 16;

class ComputedRows : public Buffer::Source {
 public:
  ComputedRows(std::int64_t count, std::int64_t width) : count_(count), width_(width) {}
  /// Rows [begin, end) of f32, the first of them at `to`. Several threads may call it at once.
  virtual void compute(std::int64_t begin, std::int64_t end, float* to) const = 0;
  void write(std::byte* to) const final;
  std::int64_t width() const { return width_; }

 private:
  std::int64_t count_, width_;
};

/// An f32 tensor [..., width] with these rows. What they are computed of must not change before they are
/// read.
Tensor when_read(std::shared_ptr<const ComputedRows> rows, const Shape& shape);
/// The rows of a tensor that has all of them, in their order, if nobody has read them yet; else null.
std::shared_ptr<const ComputedRows> unread_rows(const Tensor& x);

}  // namespace heed
