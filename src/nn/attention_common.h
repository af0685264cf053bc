// What all kinds of multi-head attention share: heads, projections, taps and the output projection.
#pragma once

#include "heed/nn/attention.h"

namespace heed {

struct ProjectedHeads {
  Tensor queries, keys, values;  // [B, H, T, d], [B, K, T, d], views
};

/// The queries, keys and values of x [B, T, D].
ProjectedHeads project_heads(const MultiHeadAttention& attention, const Tensor& x);

/// Throws Error where rows hold several documents that must not see each other, which `kind` of attention
/// cannot keep apart.
void refuse_documents(const char* kind, const AttentionOptions& options);

/// The weights as listeners replaced them, times the values: [B, H, T, d].
Tensor weigh_values(const MultiHeadAttention& attention, const Tensor& weights, const Tensor& values);
/// The output projection of heads [B, H, T, d], and its tap.
Tensor project_output(const MultiHeadAttention& attention, const Tensor& heads, Pass& pass);

/// The output projection of what `compute` makes of queries, keys and values [B, H, T, d], which the taps see
/// before. `compute(AttentionWeights*)` gives [B, H, T, d], and the weights where somebody listens.
template <class Compute>
Tensor attend_by(const MultiHeadAttention& attention, Tensor& queries, Tensor& keys, Tensor& values,
                 Pass& pass, Compute compute) {
  pass.tap("q", queries);
  pass.tap("k", keys);
  pass.tap("v", values);
  if (!pass.wants("weights")) return project_output(attention, compute(nullptr), pass);
  AttentionWeights all;
  Tensor heads = compute(&all);  // [B, H, T, d]
  Tensor offered = all.values;
  pass.tap("weights", offered);
  if (!offered.is_same(all.values)) heads = weigh_values(attention, offered, values);
  return project_output(attention, heads, pass);
}

}  // namespace heed
