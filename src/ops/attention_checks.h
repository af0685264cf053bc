// What the fused attention and the plain formula ask of their arguments, and how they read them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/ops/attention.h"

namespace heed {

inline constexpr const char* kAttentionName = "scaled_dot_product_attention";

struct AttentionSizes {
  std::int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
};

/// The sizes of q, k and v; throws Error when they do not fit together.
AttentionSizes attention_sizes(const Tensor& q, const Tensor& k, const Tensor& v,
                               const char* name = kAttentionName);

/// What is calculated in, and what masks and biases are given in.
DType attention_compute_type(const Tensor& q);

/// Throws Error when an option does not fit the sizes or the type.
void check_attention_options(const AttentionSizes& n, DType compute, const AttentionOptions& o);

/// Throws Error unless the masks, where defined, are bool [B, S] and i64 [B].
void check_key_masks(const char* name, const AttentionSizes& n, const Tensor& key_mask,
                     const Tensor& key_lengths);
/// Both masks as one, bool [B, S]; undefined where no key is hidden.
Tensor visible_keys(const AttentionSizes& n, const Tensor& key_mask, const Tensor& key_lengths);

/// What products of queries with keys are multiplied by.
double attention_scale(const AttentionOptions& options, const AttentionSizes& n);

/// The requested heads and queries, as the kernel takes them; all if none are named.
struct WantedWeights {
  std::vector<std::int64_t> heads, queries;
  std::unique_ptr<bool[]> flags;  // by head

  /// Throws Error when there is no such head or query, or heads are not in growing order.
  WantedWeights(const AttentionWeights& weights, const AttentionSizes& n);
};
}  // namespace heed
