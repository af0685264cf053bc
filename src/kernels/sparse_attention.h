// Sparse attention (Child et al. 2019) over the keys of a pattern alone: O(T l + T S / l) products for a
// stride l, forward and backward, and memory proportional to T + S. What is promised of the numbers is what
// attention.h promises.
#pragma once

#include <cstdint>

#include "heed/kernels/sparse_pattern.h"
#include "kernels/attention.h"

namespace heed::kernels {

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
