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
  Tensor mask;  ///< bool (true = may be seen) or additive (f64 or f32, as calculated), broadcasts to [B, H,
                ///< T, S]
  Tensor key_mask;     ///< bool [B, S], false where the key is padding
  Tensor key_lengths;  ///< i64 [B]: the row's keys from this one on may not be seen
  /// i64 [B]: P, the position of the row's first query; S - T when absent, so that the queries are the last T
  /// of S places. Causality, window, ALiBi and the relative bias all count from it.
  Tensor query_offsets;
  /// [H, T + S - 1] in f64 or f32: relative_bias[h, r + S - 1] is added to the score of query t and key s
  /// with r = s - (t + P) (an r outside the table takes the nearest entry): Shaw's and T5's biases without a
  /// T x S tensor.
  Tensor relative_bias;
  Tensor
      alibi_slopes;  ///< [H] in f64 or f32: adds -slope * distance (Press et al., "Train short, test long")
  double dropout = 0.0;  ///< on the weights; needs `stream`
  RandomStream stream;
};

/// Weights somebody wants to see: of these heads, for these queries.
struct AttentionWeights {
  std::vector<std::int64_t> heads;    ///< in growing order; empty: all
  std::vector<std::int64_t> queries;  ///< in any order; empty: all
  Tensor values;  ///< receives [B, heads, queries, S]: the softmax's result, before dropout
};

/// softmax(scale * q k^T + masks) v for q [B, H, T, d], k [B, K, S, d], v [B, K, S, e], giving [B, H, T, e].
/// K divides H: head h reads key-value head h / (H / K) (grouped-query attention, Ainslie et al.). A query
/// that may see no key gives zeros. All f64; or q f32, bf16 or f16, and k and v one of these, not always q's:
/// numbers are stored so, all is calculated in f32, and the result has q's type. Any strides as long as the
/// last axis is contiguous: k and v may be views of a cache with room for more. Gradients for q, k, v, an
/// additive mask and the relative bias. Memory grows with T + S, not with T * S. `weights` are filled without
/// gradient, by calculating the scores of the chosen heads and queries once more. Throws Error when shapes,
/// dtypes or options do not fit.
///
/// A row's result has the same bits whatever the batch, the other rows, the number of threads, and however
/// many keys lie beyond those that key_lengths, or the end of key_mask, let it see.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {},
                                    AttentionWeights* weights = nullptr);

/// The same by the plain formula, made of matmul, softmax and dropout: the oracle and the explanation. Holds
/// [B, H, T, S]; the weights keep their gradient here.
Tensor attention_by_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options = {}, AttentionWeights* weights = nullptr);

}  // namespace heed
