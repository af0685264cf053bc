// Measures of recorded attention, as alternatives to the weights.
#pragma once

#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/record.h"

namespace HEED_API heed {

// The first two throw Error for a layer without what they need (see record_attention).

/// ||alpha_ij f(x_j)||, f(x) = v W_O of one head: the length of the vector that query i receives from key j
/// through this head. [H, T, S]. Kobayashi et al. 2020, "Attention is not only a weight", equation 5.
Tensor value_weighted_norms(const RecordedLayer& layer);

/// Weight times the gradient of the recorded logit, with its sign; [H, T, S].
Tensor gradient_times_attention(const RecordedLayer& layer);

/// Attention rollout, [T, T] for each layer: the product of A = (mean over heads + I) / 2, with rows divided
/// by their sums, over the layers from the first to this one. `weights` are the self-attention weights [H, T,
/// T] of each layer from the first on. Abnar and Zuidema 2020, "Quantifying attention flow in transformers".
std::vector<Tensor> attention_rollout(std::span<const Tensor> weights);

}  // namespace heed
