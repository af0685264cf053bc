// Attention for modules inside the library, beside heed/ops/attention.h: its scores as numbers, rows without
// padding, and keys and values in pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/ops/attention.h"
#include "heed/ops/attention_variants.h"
#include "kernels/attention.h"
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
inline constexpr std::int64_t kLinearAttentionChunk = kernels::kLinearAttentionChunk;

/// scaled_dot_product_attention of the rows of q [1, H, N, d], k [1, K, N, d] and v [1, K, N, e], to the bit,
/// without a gradient. Row r has the next lengths[r] >= 1 of the N tokens, at positions from 0 on, and
/// attends to itself alone. A relative bias is that of the longest row, [H, 2 T - 1]. Masks, lengths, offsets
/// and starts of keys are not given.
Tensor packed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        std::span<const std::int64_t> lengths, const AttentionOptions& options);

// Attention to keys and values in pages: a decoding keeps those of each row in pieces of its own, so that
// rows come, leave and share what they have in common without copies of it.

/// Keys [K, C, d] and values [K, C, e] of positions that follow one another, with room for C of them, at most
/// kernels::kAttentionPage.
struct KeyValuePage {
  Tensor keys, values;
  std::int64_t capacity() const { return keys.size(1); }
};

/// scaled_dot_product_attention of q [R, H, T, d], to the bit, without a gradient. Page i of a row has its
/// positions from i * kernels::kAttentionPage on; pages may be missing where key_lengths hides all of their
/// keys. All are alike but for their capacity, and there is one at least.
Tensor paged_attention(const Tensor& q, std::span<const std::vector<const KeyValuePage*>> rows,
                       std::int64_t keys, const AttentionOptions& options);

/// Positions [first, first + count) of a row of new keys and values, which become those of a page from `at`
/// on.
struct PageWrite {
  std::int64_t row, first, count;
  const KeyValuePage* page;
  std::int64_t at;
};
/// Copies from keys [R, K, T, d] and values [R, K, T, e] to pages of the same dtype.
void write_pages(const Tensor& keys, const Tensor& values, std::span<const PageWrite> writes);

}  // namespace heed
