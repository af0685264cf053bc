// Scores of additive attention (Bahdanau, Cho and Bengio 2015, "Neural machine translation by jointly
// learning to align and translate"). Softmax and the sum of values are those of scaled_dot_product_attention,
// which takes scores as an additive mask.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// scores[b, t, s] = sum over a of v[a] tanh(q[b, t, a] + k[b, s, a]) for projected queries q [B, T, A] and
/// keys k [B, S, A], and v [A]: [B, T, S]. f32 or f64, all of one dtype. Gradients for q, k and v; the
/// [B, T, S, A] numbers under the tanh are not stored, but computed again. Throws Error when shapes or dtypes
/// do not match.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

/// The same with elementary operations, storing [B, T, S, A]: for tests and as explanation.
Tensor additive_scores_by_formula(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace heed
