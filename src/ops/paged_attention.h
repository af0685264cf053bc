// Attention to keys and values in pages: a decoding keeps those of each row in pieces of its own, so that
// rows come, leave and share what they have in common without copies of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/ops/attention.h"
#include "kernels/attention.h"

namespace heed {

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
