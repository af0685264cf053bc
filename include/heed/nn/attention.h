// Multi-head attention (Vaswani et al. 2017, section 3.2.2) as parts of a layer: self-attention and
// cross-attention, and the keys and values that they remember while decoding.
//
// Taps below the part's name: `rotation` [T, r], or [B, T, r] where rows have their own positions, the
// cosines and sines that rotate queries and keys; `q` [B, H, T, d], `k` and `v` [B, K, S, d] before the
// scores; `scores` [B, H, T, S], scaled, capped, with biases and masks (-inf); `weights` [B, H, T, S] after
// the softmax; `heads` [B, H, T, d], what each head reads; `contributions` [B, H, T, D], each head's part of
// the output projection, without bias; `out` [B, T, D] after the output projection. Scores and weights are
// computed only for the heads and queries that listeners select; replacing them changes the result.
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
/// All keys, then all values, of a cross-attention (GPT-2).
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
  /// For a causal self-attention: a query attends only to the keys of this pattern. Dropout, bias, cap and
  /// window then do not apply.
  std::optional<SparsePattern> sparse = {};
  /// Replaces q, k and v of a self-attention, k and v of a cross-attention.
  std::optional<FusedQkv> fused = {};
  /// Norms of queries and keys before the rotation (Henry et al. 2020, "Query-key normalization"): over the d
  /// dims of a head, or, with a weight for each row of q and k, over the dims of all heads together (OLMo 2).
  std::optional<Norm> q_norm = {}, k_norm = {};

  /// The output projection of softmax(scores) v, for queries [B, H, T, d] and keys and values [B, K, S, d].
  Tensor attend(Tensor queries, Tensor keys, Tensor values, AttentionOptions options, Pass& pass) const;
};

struct SelfAttention {
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D]; Pass::self determines which keys count. With a state, the T tokens follow the
  /// earlier ones in it.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  /// The same for the tokens Pass::read alone, [B, 1, D], with the same bits: queries are theirs, keys and
  /// values those of all tokens. Without taps and gradients.
  Tensor of_read_tokens(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

struct CrossAttention {
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D], attending to Pass::memory, or to the memory that the state was made with.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

// Multi-head attention with linear attention (heed/ops/linear_attention.h) instead of the softmax, as a
// part of a layer. Decoding keeps sums over the keys, whose size does not depend on the number of tokens.
//
// Taps are those of softmax attention, without `scores`. While decoding, a listener for `weights` must listen
// from the first token on, because only then are keys kept.

struct LinearSelfAttention {
  /// Only projections, heads and norms of queries and keys are used.
  MultiHeadAttention attention;
  /// x [B, T, D] to [B, T, D]; Pass::self determines which keys count, and whether later keys do. With a
  /// state (causal attention only), the T tokens follow those in its sums.
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
  std::unique_ptr<PartState> make_state(const Tensor& memory) const;
};

// Disentangled attention (He et al. 2021, "DeBERTa", section 3.1; 2023, "DeBERTaV3"): besides content to
// content, scores compare content with relative positions,
//
//   score[t, s] = (q_t . k_s  +  q_t . kr_i  +  k_s . qr_i) / sqrt(d * terms),   i = bucket(t - s),
//                  content      c2p            p2c
//
// where kr and qr are projections of one table of relative position embeddings, which all layers share.

/// Relative positions t - s as rows of a table: with `buckets`, small distances have a row each, and larger
/// ones share rows whose width grows logarithmically up to `max_distance`.
struct DisentangledBuckets {
  std::int64_t span = 0;     ///< the table has rows for -span .. span - 1
  std::int64_t buckets = 0;  ///< 0: a row for every distance below `span`
  std::int64_t max_distance = 0;
  /// The row of distance t - s.
  std::int64_t of(std::int64_t distance) const;
};

/// The embeddings of relative positions.
struct DisentangledPositions {
  Tensor table;  // [2 * span, D]
  DisentangledBuckets buckets;
  std::optional<Norm> norm = {};  ///< of each row
  double dropout = 0.0;           ///< on each row
};

/// Self-attention with position terms; taps are those of softmax attention. Allocates one [B, H, T, T]
/// tensor, the sum of the terms. A query that Pass::self masks (padding) attends to all tokens equally.
struct DisentangledAttention {
  MultiHeadAttention attention;  ///< `scale` is 1 / sqrt(d * terms)
  std::shared_ptr<const DisentangledPositions> positions;
  std::optional<Linear> position_key = {};    ///< projects positions to kr; without it there is no c2p
  std::optional<Linear> position_query = {};  ///< to qr; without it no p2c
  /// x [B, T, D] to [B, T, D].
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
};

}  // namespace heed
