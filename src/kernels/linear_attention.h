// Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"), forward and backward, in time
// proportional to the number of tokens: with phi(x) = elu(x) + 1,
//
//   o_t = (sum_s phi(q_t) . phi(k_s) v_s) / (sum_s phi(q_t) . phi(k_s)) = S_t^T phi(q_t) / (z_t . phi(q_t)),
//   S_t = sum_s phi(k_s) v_s^T,  z_t = sum_s phi(k_s),  over the keys s that query t sees.
//
// Chunks of tokens are worked on together; sums over chunks are in double, so that they hold for any length.
// A row's result is the same bits for any batch, any other rows, any number of threads, and any number of
// hidden keys after those it sees.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace heed::kernels {

/// Tokens that are worked on together, counted from the first of a call: keys that come in several calls,
/// with a `state`, give the bits of one call where each but the last has a multiple of these.
inline constexpr std::int64_t kLinearAttentionChunk = 64;

struct LinearAttentionOptions {
  bool causal = false;             // query t sees the keys s <= t; then T = S
  const bool* key_mask = nullptr;  // [B, S], true where the key may be seen
};

/// Arguments of linear_attention. Null marks what is optional.
template <class T>
struct LinearAttentionForward {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* o = nullptr;
  T* sums = nullptr;        // [B, H, T], the denominators (backward needs them)
  double* state = nullptr;  // [B, K, d, e + 1]: S and z of earlier keys; these keys are added
};

/// o by the formula above; 0 for a query that sees no key. T: float, double.
template <class T>
void linear_attention(const AttentionShape& shape, const LinearAttentionOptions& options,
                      const LinearAttentionForward<T>& args);

/// Arguments of linear_attention_backward.
template <class T>
struct LinearAttentionBackward : AttentionGradients<T> {
  const T* sums = nullptr;  // from linear_attention
};

template <class T>
void linear_attention_backward(const AttentionShape& shape, const LinearAttentionOptions& options,
                               const LinearAttentionBackward<T>& args);

}  // namespace heed::kernels
