// Scaled dot-product attention (Vaswani et al., "Attention is all you need", equation 1): the fused
// operation, which never holds the whole matrix of weights unless it is asked for, and the plain formula it
// must equal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/random.h"
#include "heed/tensor.h"

namespace heed {

struct AttentionOptions {
  std::optional<double> scale;  ///< factor of q k^T; 1/sqrt(d) when absent
  bool causal = false;          ///< query t sees key s only when s <= t + P
  std::int64_t window = 0;      ///< if > 0, only keys at distance < window, the query's own place included
  Tensor mask;         ///< bool (true = may be seen) or additive (q's dtype), broadcasts to [B, H, T, S]
  Tensor key_mask;     ///< bool [B, S], false where the key is padding
  Tensor key_lengths;  ///< i64 [B]: the row's keys from this one on may not be seen
  /// i64 [B]: P, the position of the row's first query; S - T when absent, so that the queries are the last T
  /// of S places. Causality, window, ALiBi and the relative bias all count from it.
  Tensor query_offsets;
  /// [H, T + S - 1] of q's dtype: relative_bias[h, r + S - 1] is added to the score of query t and key s with
  /// r = s - (t + P) (an r outside the table takes the nearest entry): Shaw's and T5's biases without a T x S
  /// tensor.
  Tensor relative_bias;
  Tensor alibi_slopes;  ///< [H] of q's dtype: adds -slope * distance (Press et al., "Train short, test long")
  double dropout = 0.0;  ///< on the weights; needs `stream`
  RandomStream stream;
};

/// softmax(scale * q k^T + masks) v for q [B, H, T, d], k [B, K, S, d], v [B, K, S, e], giving [B, H, T, e].
/// K divides H: head h reads key-value head h / (H / K) (grouped-query attention, Ainslie et al.). A query
/// that may see no key gives zeros. All f32 or all f64, any strides as long as the last axis is contiguous:
/// k and v may be views of a cache with room for more. Gradients for q, k, v, an additive mask and the
/// relative bias. When `weights` is given it receives the softmax's result [B, H, T, S] (before dropout,
/// without gradient). Throws Error when shapes, dtypes or options do not fit.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {}, Tensor* weights = nullptr);

/// The same by the plain formula, made of matmul, softmax and dropout: the oracle and the explanation. Holds
/// [B, H, T, S]; `weights` keeps its gradient here.
Tensor attention_by_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options = {}, Tensor* weights = nullptr);

}  // namespace heed
