// What all kinds of multi-head attention share: heads, projections, taps and the output projection.
#pragma once

#include <cstddef>
#include <type_traits>

#include "heed/nn/attention.h"
#include "heed/ops/softmax.h"

namespace heed {

struct ProjectedHeads {
  Tensor queries, keys, values;  // [B, H, T, d], [B, K, T, d], views
};

/// The queries, keys and values of x [B, T, D].
ProjectedHeads project_heads(const MultiHeadAttention& attention, const Tensor& x);

struct KeysAndValues {
  Tensor keys, values;  // [B, K, S, d], views
};

/// The queries of a cross-attention, [B, H, T, d], a view, and the keys and values of its memory [B, S, D'].
Tensor project_queries(const MultiHeadAttention& attention, const Tensor& x);
KeysAndValues project_memory(const MultiHeadAttention& attention, const Tensor& memory);

/// Throws Error where rows hold several documents that must not see each other, which `kind` of attention
/// cannot keep apart.
void refuse_documents(const char* kind, const AttentionOptions& options);

/// The weights as listeners replaced them, times the values: [B, H, T, d].
Tensor weigh_values(const MultiHeadAttention& attention, const Tensor& weights, const Tensor& values);
/// `heads` [B, H, T, d] with what the weights of a part of the heads and queries give in its place.
Tensor weigh_values(const MultiHeadAttention& attention, const Tensor& weights, const Tensor& values,
                    const TapPart& part, const Tensor& heads);
/// The values [B, K, S, d] times each head's part of the output projection, without its bias: [B, H, S, D].
Tensor transformed_values(const MultiHeadAttention& attention, const Tensor& values);
/// The output projection of heads [B, H, T, d], and the taps before and after it.
Tensor project_output(const MultiHeadAttention& attention, Tensor heads, Pass& pass);
/// The heads and queries whose scores or weights listeners want.
TapPart wanted_scores(const MultiHeadAttention& attention, const Tensor& queries, const Pass& pass);

/// The output projection of what `compute` makes of queries, keys and values [B, H, T, d], which the taps see
/// before. `compute(AttentionWeights*)` gives [B, H, T, d], and the weights where a tap listens;
/// `form_scores(AttentionWeights&)` gives the scores, where the kind of attention has a softmax (else
/// nullptr).
template <class Compute, class FormScores>
Tensor attend_by(const MultiHeadAttention& attention, Tensor& queries, Tensor& keys, Tensor& values,
                 Pass& pass, Compute compute, FormScores form_scores) {
  constexpr bool has_scores = !std::is_same_v<FormScores, std::nullptr_t>;
  pass.tap("q", queries, kQueryAxes);
  pass.tap("k", keys, kKeyAxes);
  pass.tap("v", values, kKeyAxes);
  if (pass.wants("transformed")) {
    Tensor transformed = transformed_values(attention, values);
    pass.tap("transformed", transformed, kKeyAxes);
  }
  const bool wants_weights = pass.wants("weights"), wants_scores = has_scores && pass.wants("scores");
  if (!wants_weights && !wants_scores) return project_output(attention, compute(nullptr), pass);
  const TapPart part = wanted_scores(attention, queries, pass);
  AttentionWeights wanted{part.heads, part.queries, {}};
  Tensor heads = compute(wants_weights ? &wanted : nullptr);  // [B, H, T, d]
  Tensor weights = wanted.values;
  bool replaced = false;
  if constexpr (has_scores) {
    AttentionWeights scores{part.heads, part.queries, {}};
    if (wants_scores) form_scores(scores);
    Tensor offered = scores.values;
    if (wants_scores) pass.tap("scores", offered, kScoreAxes, part);
    replaced = wants_scores && !offered.is_same(scores.values);
    if (replaced) weights = softmax(offered, -1);
  }
  Tensor offered = weights;
  if (wants_weights) pass.tap("weights", offered, kScoreAxes, part);
  replaced = replaced || (wants_weights && !offered.is_same(weights));
  if (replaced) heads = weigh_values(attention, offered, values, part, heads);
  return project_output(attention, heads, pass);
}

}  // namespace heed
