// Sparse attention over a fixed pattern of keys (Child et al. 2019): scaled dot-product attention whose cost
// grows with T sqrt(T) when the stride is near sqrt(T).
#pragma once

#include <optional>

#include "heed/kernels/sparse_pattern.h"
#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace heed {

struct SparseAttentionOptions {
  SparsePattern pattern = {};        ///< which keys a query attends to; always causal
  std::optional<double> scale = {};  ///< factor of q k^T; 1/sqrt(d) when absent
  Tensor key_mask = {};              ///< bool [B, S], false where the key is padding
  Tensor key_lengths = {};           ///< i64 [B]: the row's keys from this index on are masked
  Tensor query_offsets = {};         ///< i64 [B]: the position of the row's first query; S - T when absent
};

/// softmax(scale * q k^T) v over the keys that the pattern lets a query see, for q [B, H, T, d], k [B, K, S,
/// d], v [B, K, S, e], giving [B, H, T, e]; all f32 or all f64. K divides H: head h reads key-value head h /
/// (H / K). A query whose keys are all masked gives zeros. With a stride l, O(T (l + S / l) d) operations
/// forward and backward, and memory proportional to T + S. Strides of tensors are arbitrary as long as the
/// last axis is contiguous. Gradients for q, k and v. `weights`, which are zeros outside the pattern, have no
/// gradient and cost the scores of all S keys. Throws Error when shapes, dtypes or options do not match.
///
/// Batch-invariant as scaled_dot_product_attention is.
Tensor sparse_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const SparseAttentionOptions& options, AttentionWeights* weights = nullptr);

/// The same by attention_by_formula with the pattern as a mask: for tests and as explanation.
Tensor sparse_attention_by_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const SparseAttentionOptions& options,
                                   AttentionWeights* weights = nullptr);

}  // namespace heed
