// The position terms of disentangled attention (He et al. 2021, "DeBERTa", equation 4), gathered from their
// products by relative position.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

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

}  // namespace heed
