// Rotary positions (Su et al. 2021, "RoFormer"): pairs of a head's elements are rotated by an angle that
// grows with the token's position, so that q . k depends on the difference of two positions.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Where element (b, h, t, c) of a tensor lies: b * batch + h * head + t * row + c.
struct HeadStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Arguments of rotary. Row t of batch b is rotated by cos_sin[b * cos_sin_batch + t * rotary_dim + i]:
/// cosines for i < rotary_dim / 2, then sines.
template <class T>
struct Rotary {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t time = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // even, <= head_dim; what follows is copied
  bool interleaved = false;     // pairs are (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
  bool transposed = false;      // rotates the other way: the gradient
  const T* x = nullptr;
  const T* cos_sin = nullptr;
  T* y = nullptr;  // may be x
  HeadStrides x_strides, y_strides;
  std::int64_t cos_sin_batch = 0;  // 0 repeats cos_sin for every row of the batch
};

/// A pair (a, b) with cosine c and sine s becomes (a c - b s, b c + a s); transposed, (a c + b s, b c - a s).
template <class T>
void rotary(const Rotary<T>& args);

}  // namespace heed::kernels
