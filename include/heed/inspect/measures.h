// Measures of recorded attention: what is shown instead of, or beside, the weights.
#pragma once

#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/record.h"

namespace HEED_API heed {

// The first two throw Error for a layer without what they need (see record_attention).

/// ||alpha_ij f(x_j)||, f(x) = v W_O of one head: the length of what query i gets from key j through this
/// head. [H, T, S]. Kobayashi et al. 2020, "Attention is not only a weight", equation 5.
Tensor value_weighted_norms(const RecordedLayer& layer);

/// Weight times the gradient of the recorded logit, with its sign; [H, T, S].
Tensor gradient_times_attention(const RecordedLayer& layer);

/// Attention rollout: of self-attention weights [H, T, T] of each layer from the first on, the product of
/// A = (mean over heads + I) / 2, rows divided by their sums, up to this layer; [T, T] each. Abnar and
/// Zuidema 2020, "Quantifying attention flow in transformers".
std::vector<Tensor> attention_rollout(std::span<const Tensor> weights);

}  // namespace heed
