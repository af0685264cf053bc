// The scores of attention as numbers, for those who look at them: what the softmax reads; and weights of keys
// that linear attention has only sums of, and how it sums.
#pragma once

#include "heed/ops/attention.h"
#include "heed/ops/attention_variants.h"
#include "kernels/attention_variants.h"

namespace heed {

/// scale q k^T, capped, with biases, and -inf where a mask forbids it, of the requested heads and queries,
/// both in increasing order: `scores.values` [B, heads, queries, S], by the plain formula. No gradient.
/// Throws Error as scaled_dot_product_attention does.
void attention_scores(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      AttentionWeights& scores);
/// The same for sparse_attention.
void sparse_attention_scores(const Tensor& q, const Tensor& k, const Tensor& v,
                             const SparseAttentionOptions& options, AttentionWeights& scores);

/// The requested weights of causal linear attention, of queries [B, H, T, d] at positions offsets[b] (i64
/// [B]) and following among the keys [B, K, S, d]; those from key_lengths[b] (i64 [B], or undefined) on are
/// padding.
void linear_attention_weights(const Tensor& q, const Tensor& k, const Tensor& offsets,
                              const Tensor& key_lengths, AttentionWeights& weights);

/// Calls of linear attention with a state give the bits of one call over all tokens where each but the last
/// has a multiple of this number of them: its sums come in chunks.
inline constexpr std::int64_t kLinearAttentionGranule = kernels::kLinearAttentionChunk;

}  // namespace heed
