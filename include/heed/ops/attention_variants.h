// Attention by other formulas than the scaled dot product over all keys: additive, linear and sparse.
#pragma once

#include <optional>

#include "heed/export.h"
#include "heed/kernels/sparse_pattern.h"
#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// scores[b, t, s] = sum over a of v[a] tanh(q[b, t, a] + k[b, s, a]) for projected queries q [B, T, A] and
/// keys k [B, S, A], and v [A]: [B, T, S]. f32 or f64, all of one dtype. Gradients for q, k and v; the
/// [B, T, S, A] numbers under the tanh are not stored, but computed again. Throws Error when shapes or dtypes
/// do not match.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

/// The same with elementary operations, storing [B, T, S, A]: for tests and as explanation.
Tensor additive_scores_by_formula(const Tensor& q, const Tensor& k, const Tensor& v);

// Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs: fast autoregressive transformers with
// linear attention"): a similarity that is a product of features instead of an exponential, so that the keys
// and values that a query sees can be summed once for all queries.

struct LinearAttentionOptions {
  bool causal = false;      ///< query t attends to the keys s <= t; then T = S
  Tensor key_mask = {};     ///< bool [B, S], false where the key is padding
  Tensor key_lengths = {};  ///< i64 [B]: the row's keys from this index on are masked
  /// f64 [B, K, d, e + 1], or undefined: the sums over earlier keys of phi(k)_i v_j, and of phi(k)_i in the
  /// last column. All queries see them, and the call adds these keys to them, in place.
  Tensor state = {};
};

/// o_t = sum_s w_ts v_s with w_ts = phi(q_t) . phi(k_s) / sum_s phi(q_t) . phi(k_s) and phi(x) = elu(x) + 1,
/// for q [B, H, T, d], k [B, K, S, d], v [B, K, S, e], giving [B, H, T, e]; all f32 or all f64. K divides H:
/// head h reads key-value head h / (H / K). A query whose keys are all masked gives zeros. Time and memory
/// are proportional to T + S: O((T + S) d e) operations, forward and backward. Strides are arbitrary as long
/// as the last axis is contiguous. Gradients for q, k and v; none with a state. `weights` are computed by the
/// formula, have no gradient, and need memory of their size; there are none with a state, which keeps no
/// keys. Throws Error when shapes, dtypes or options do not match.
///
/// Batch-invariant as scaled_dot_product_attention is.
Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const LinearAttentionOptions& options = {}, AttentionWeights* weights = nullptr);

/// The same with exp, matmul and a division, from the [B, H, T, S] weights, without a state: for tests and as
/// explanation; here `weights` have a gradient.
Tensor linear_attention_by_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const LinearAttentionOptions& options = {},
                                   AttentionWeights* weights = nullptr);

// Sparse attention over a fixed pattern of keys (Child et al. 2019): scaled dot-product attention whose cost
// grows with T sqrt(T) when the stride is near sqrt(T).

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
