// Scaled dot-product attention (Vaswani et al., "Attention is all you need", equation 1): a fused operation,
// which stores attention weights only on request, and the plain formula that it must equal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace HEED_API heed {

struct AttentionOptions {
  std::optional<double> scale;  ///< factor of q k^T; 1/sqrt(d) when absent
  double score_cap = 0.0;  ///< if > 0, softcap (heed/ops/activation.h) of scale q k^T, before mask and biases
  bool causal = false;     ///< query t attends to key s only if s <= t + P
  std::int64_t window = 0;  ///< if > 0, only keys at distance < window, the query's own position included
  Tensor mask;         ///< bool (true = may attend) or additive (f32, or f64 for f64 operands); broadcasts to
                       ///< [B, H, T, S]
  Tensor key_mask;     ///< bool [B, S], false where the key is padding
  Tensor key_lengths;  ///< i64 [B]: the row's keys from this index on are masked
  /// i64 [B]: P, the position of the row's first query; S - T when absent, so that the queries are the last T
  /// of S positions. The causal mask, the window, ALiBi and the relative bias are relative to it.
  Tensor query_offsets;
  /// i64 [B, T], not decreasing along a row: the query attends to no key before this index. With `causal`,
  /// this packs several documents into a row, and each attends only to itself.
  Tensor key_starts;
  /// [H, T + S - 1] in f64 or f32: relative_bias[h, r + S - 1] is added to the score of query t and key s
  /// with r = s - (t + P) (r is clamped to the table): the biases of Shaw et al. and T5 without a T x S
  /// tensor.
  Tensor relative_bias;
  Tensor
      alibi_slopes;  ///< [H] in f64 or f32: adds -slope * distance (Press et al., "Train short, test long")
  double dropout = 0.0;  ///< on the weights; needs `stream`
  RandomStream stream;
};

/// Request for attention weights of some heads and queries.
struct AttentionWeights {
  std::vector<std::int64_t> heads;    ///< in increasing order; empty: all
  std::vector<std::int64_t> queries;  ///< in any order; empty: all
  Tensor values;                      ///< the result, [B, heads, queries, S]: softmax before dropout
};

/// softmax(scale * q k^T + masks) v for q [B, H, T, d], k [B, K, S, d], v [B, K, S, e], giving [B, H, T, e].
/// K divides H: head h reads key-value head h / (H / K) (grouped-query attention, Ainslie et al.). A query
/// whose keys are all masked gives zeros. Dtypes: all f64; or q in f32, bf16 or f16, and k and v both in one
/// of these, which may differ from q's, or both u8 [B, K, S, 4 + d] and [B, K, S, 4 + e], int8 rows
/// (int8_rows()). 16-bit operands are computed in f32; the result has q's dtype. Strides are arbitrary as
/// long as the last axis is contiguous: k and v may be views of a cache with spare capacity. Gradients for q,
/// k, v, an additive mask and the relative bias; none with int8 rows. Memory grows with T + S, not with T *
/// S. `weights` have no gradient; requesting them computes the scores of the chosen heads and queries once
/// more. Throws Error when shapes, dtypes or options do not match.
///
/// Batch-invariant: a row's result is bit-identical for any batch, any other rows, any number of threads, and
/// any number of keys after those that key_lengths, or the end of key_mask, allows.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {},
                                    AttentionWeights* weights = nullptr);

/// The same by the plain formula, with matmul, softmax and dropout: for tests and as explanation. Stores a
/// [B, H, T, S] tensor; here `weights` have a gradient.
Tensor attention_by_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options = {}, AttentionWeights* weights = nullptr);

// The position terms of disentangled attention (He et al. 2021, "DeBERTa", equation 4), gathered by relative
// position.

/// y[b, h, t, s] = c2p[b, h, t, i] + p2c[b, h, s, i] with i = buckets[t - s + S - 1], [B, H, T, S]:
/// content-to-position products c2p [B, H, T, R] and position-to-content products p2c [B, H, S, R] (one of
/// them may be undefined: then T = S); buckets i64 [T + S - 1] of numbers in [0, R). With `present` bool [B,
/// S] (T = S), y is -inf for keys that are absent, and 0 for every key of an absent query: with a query of
/// zeros it attends to all keys equally, as DeBERTa's padding does. f32 or f64; gradients for c2p and p2c.
/// Throws Error when shapes, dtypes or buckets do not fit.
Tensor disentangled_bias(const Tensor& c2p, const Tensor& p2c, const Tensor& buckets,
                         const Tensor& present = {});
/// The same with gather, sums and products.
Tensor disentangled_bias_by_formula(const Tensor& c2p, const Tensor& p2c, const Tensor& buckets,
                                    const Tensor& present = {});

// Keys and values in 8 bits: each row has one scale, and an integer for each number.

/// Converts each row of x [..., d], f32, to u8 [..., 4 + d]: the row's scale, an f32, then d signed integers
/// of 8 bits. scale = max |x| / 127, and each integer is x / scale, rounded to the nearest, ties to even. A
/// row of zeros has the scale 0; a row with infinities or NaN has an infinite or NaN scale, and its integers
/// have no meaning. No gradient. Throws Error for another dtype.
Tensor int8_rows(const Tensor& x);
/// Converts such rows back to numbers, scale * integer: u8 [..., 4 + d] to f32 [..., d]. Throws Error for
/// other tensors.
Tensor from_int8_rows(const Tensor& rows);

}  // namespace heed
