// Position terms of disentangled attention by relative position (He et al. 2021), and the scatter of their
// gradients.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Sizes of c2p [outer * heads, queries, rows], p2c [outer * heads, keys, rows] and y [outer * heads,
/// queries, keys].
struct Disentangled {
  std::int64_t outer = 0;  // B
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t rows = 0;                  // R
  const std::int64_t* buckets = nullptr;  // [queries + keys - 1], each in [0, rows)
  const bool* present = nullptr;          // [outer, keys], optional; then queries == keys
};

/// y[t, s] = c2p[t, i] + p2c[s, i], i = buckets[t - s + keys - 1]; a null operand is left out. -inf where key
/// s is absent, 0 for all keys where query t is.
template <class T>
void disentangled_bias(const Disentangled& args, const T* c2p, const T* p2c, T* y);

/// dc2p[t, i] += dy[t, s] and dp2c[s, i] += dy[t, s] where both are present; a null gradient is left out. In
/// the order of t and s.
template <class T>
void disentangled_bias_backward(const Disentangled& args, const T* dy, T* dc2p, T* dp2c);

}  // namespace heed::kernels
