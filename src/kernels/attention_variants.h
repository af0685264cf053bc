// Attention by other formulas than the scaled dot product over all keys: additive, linear and sparse.
#pragma once

#include <cstdint>

#include "heed/kernels/sparse_pattern.h"
#include "kernels/attention.h"

namespace heed::kernels {

/// Dense q [B, T, A], k [B, S, A] and v [A].
template <class T>
struct AdditiveOperands {
  std::int64_t batch = 0;
  std::int64_t queries = 0;  // T
  std::int64_t keys = 0;     // S
  std::int64_t dim = 0;      // A
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
};

/// scores[b, t, s] = sum over a of v[a] tanh(q[b, t, a] + k[b, s, a]).
template <class T>
void additive_scores(const AdditiveOperands<T>& operands, T* scores);

/// From dscores [B, T, S]: dq, dk, and dv_rows [B, A], whose sum over b is dv. The tanh is computed again.
template <class T>
void additive_scores_backward(const AdditiveOperands<T>& operands, const T* dscores, T* dq, T* dk,
                              T* dv_rows);

// Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"), forward and backward, in time
// proportional to the number of tokens: with phi(x) = elu(x) + 1,
//
//   o_t = (sum_s phi(q_t) . phi(k_s) v_s) / (sum_s phi(q_t) . phi(k_s)) = S_t^T phi(q_t) / (z_t . phi(q_t)),
//   S_t = sum_s phi(k_s) v_s^T,  z_t = sum_s phi(k_s),  over the keys s that query t sees.
//
// Chunks of tokens are worked on together; sums over chunks are in double, so that they hold for any length.
// A row's result is the same bits for any batch, any other rows, any number of threads, and any number of
// hidden keys after those it sees.

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

// Sparse attention (Child et al. 2019) over the keys of a pattern alone: O(T l + T S / l) products for a
// stride l, forward and backward, and memory proportional to T + S. What is promised of the numbers is what
// attention.h promises.

struct SparseAttentionOptions {
  SparsePattern pattern;
  double scale = 1.0;
  const bool* key_mask = nullptr;               // [B, S], true where the key may be seen
  const std::int64_t* query_offsets = nullptr;  // [B], the position P of the row's first query; null: S - T
};

template <class T>
struct SparseAttentionForward {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* o = nullptr;
  T* logsumexp = nullptr;  // [B, H, T]
};

/// o[t] = sum_s softmax_s(scale q[t] . k[s]) v[s] over the keys that query t sees; 0 if there are none. Query
/// t is at position P + t, and P + T <= S. T: float, double.
template <class T>
void sparse_attention(const AttentionShape& shape, const SparseAttentionOptions& options,
                      const SparseAttentionForward<T>& args);

/// Arguments of sparse_attention_backward.
template <class T>
struct SparseAttentionBackward : AttentionGradients<T> {
  const T* logsumexp = nullptr;  // from sparse_attention
};

template <class T>
void sparse_attention_backward(const AttentionShape& shape, const SparseAttentionOptions& options,
                               const SparseAttentionBackward<T>& args);

}  // namespace heed::kernels
