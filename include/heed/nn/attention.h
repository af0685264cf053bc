// Multi-head attention (Vaswani et al. 2017, section 3.2.2) as parts of a layer: self-attention and
// cross-attention, and the keys and values that they remember while decoding.
//
// Taps below the part's name: `rotation` [T, r], or [B, T, r] where rows have their own positions, the
// cosines and sines that rotate queries and keys; `q` [B, H, T, d], `k` and `v` [B, K, S, d] before the
// scores; `scores` [B, H, T, S], scaled, capped, with biases and masks (-inf); `weights` [B, H, T, S] after
// the softmax; `heads` [B, H, T, d], what each head reads; `contributions` [B, H, T, D], each head's part of
// the output projection, without bias; `out` [B, T, D] after the output projection. Scores and weights are
// computed for the heads and queries that listeners select, and never without one; replacing them changes the
// result.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "heed/export.h"
#include "heed/kernels/sparse_pattern.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/nn/part.h"

namespace HEED_API heed {

/// Queries, keys and values by one matrix product, whose result is split into views: head h of a kind has the
/// columns first + h * stride, ..., + d - 1.
struct FusedQkv {
  Linear projection;                          // [(H + 2K) * d, D]
  std::int64_t head_dim = 0;                  // d
  std::int64_t stride = 0;                    ///< d, or a multiple if the kinds alternate
  std::array<std::int64_t, 3> first = {};     ///< of queries, keys and values
  std::optional<double> clip = std::nullopt;  ///< results are clamped to [-clip, clip]
};
/// All queries, all keys, all values (GPT-2).
FusedQkv qkv_by_kind(Linear projection, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);
/// All keys, all values, of what a cross-attention reads (GPT-2).
FusedQkv kv_by_kind(Linear projection, std::int64_t kv_heads, std::int64_t head_dim);
/// Query, key and value of the first head, then of the second, ... (GPT-NeoX).
FusedQkv qkv_by_head(Linear projection, std::int64_t head_dim);

/// The weights and settings of an attention; SelfAttention and CrossAttention run it.
struct MultiHeadAttention {
  Linear q = {}, k = {}, v = {}, out = {};
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  double dropout = 0.0;                                     ///< on the weights
  std::shared_ptr<const RotaryPositions> rotary = nullptr;  ///< of queries and keys; may be null
  std::shared_ptr<const ScoreBias> bias = nullptr;          ///< may be null
  std::optional<double> scale = {};                         ///< factor on the scores; 1/sqrt(d) when absent
  double score_cap = 0.0;                                   ///< if > 0, on the scaled scores (Gemma 2)
  std::int64_t window = 0;  ///< if > 0, a query attends to this many keys, its own position included
  /// Of a causal self-attention: a query attends to the keys of this pattern only. Dropout, bias, cap and
  /// window then do not apply.
  std::optional<SparsePattern> sparse = {};
  /// Replaces q, k and v of a self-attention, k and v of a cross-attention.
  std::optional<FusedQkv> fused = {};
  /// Of each query and key over its d dims, before the rotation (Henry et al. 2020, "Query-key
  /// normalization"); with a weight for each row of q and k, over the dims of all heads together (OLMo 2).
  std::optional<Norm> q_norm = {}, k_norm = {};

  /// The output projection of softmax(scores) v, for queries [B, H, T, d] and keys and values [B, K, S, d].
  Tensor attend(Tensor queries, Tensor keys, Tensor values, AttentionOptions options, Pass& pass) const;
};

struct SelfAttention {
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D]; Pass::self determines which keys count. With a state, the T tokens follow the
  /// remembered ones.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

struct CrossAttention {
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D], attending to Pass::memory, or to the memory that the state was made with.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

}  // namespace heed
