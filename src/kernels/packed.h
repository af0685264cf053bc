// Products for inference, x w^T with w kept packed, whose every number is a sum in one fixed order:
//
//     y[i, j] = act(fma(x[i, k-1], w[j, k-1], ... fma(x[i, 0], w[j, 0], 0)) + bias[j])
//
// whatever m, the row's neighbours, the number of threads and the way the work is cut. A row of a batch has
// the bits it would have alone.
//
// The packed form of w [n, k] is n / 32 panels (the last one filled up with zeros), each [k, 32]: what one
// step along k needs lies together, and a panel is read from its first byte to its last.
#pragma once

#include <cstdint>

namespace heed::kernels {

inline constexpr std::int64_t kPanel = 32;

/// Elements in the packed form of a matrix [n, k].
constexpr std::int64_t packed_size(std::int64_t n, std::int64_t k) {
  return (n + kPanel - 1) / kPanel * kPanel * k;
}

/// Element (i, l) of the matrix is data[i * row + l * column]; one of the two distances is 1.
template <class T>
struct Plain {
  T* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 1;
};

/// A dense matrix [n, k], or one that lies as [k, n].
template <class T>
Plain<T> plain_of(T* data, std::int64_t n, std::int64_t k, bool transposed) {
  return transposed ? Plain<T>{data, 1, n} : Plain<T>{data, k, 1};
}

/// Packs w [n, k]. T is float, bfloat16 or float16.
template <class T>
void pack(Plain<const T> w, std::int64_t n, std::int64_t k, T* packed);
/// The reverse.
template <class T>
void unpack(std::int64_t n, std::int64_t k, const T* packed, Plain<T> w);
/// y[i, :] = factor * w[ids[i], :], widened; y: [count, k].
template <class T>
void packed_rows(std::int64_t k, const T* packed, const std::int64_t* ids, std::int64_t count, float factor,
                 float* y);

/// What ordered_product multiplies. The right operand is packed, or plain and packed on the way, some panels
/// at a time.
template <class T>
struct OrderedProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Plain<const float> x{};  // [m, k]
  const T* packed = nullptr;
  Plain<const T> plain{};       // where `packed` is null
  const float* bias = nullptr;  // [n], or null
  void (*activation)(const float* from, float* to, std::int64_t count) = nullptr;
  float* y = nullptr;  // [m, n], rows ldy apart
  std::int64_t ldy = 0;
  bool accumulate = false;  // the sums begin with what y holds instead of 0
};
/// Whether this processor has vectors for ordered_product; without them it is slow.
bool ordered_product_has_vectors();
/// The formula above, on all threads. T is float, bfloat16 or float16.
template <class T>
void ordered_product(const OrderedProduct<T>& args);

}  // namespace heed::kernels
