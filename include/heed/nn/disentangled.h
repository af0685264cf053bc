// Disentangled attention (He et al. 2021, "DeBERTa", section 3.1; 2023, "DeBERTaV3"): besides content to
// content, scores compare content with relative positions,
//
//   score[t, s] = (q_t . k_s  +  q_t . kr_i  +  k_s . qr_i) / sqrt(d * terms),   i = bucket(t - s),
//                  content      c2p            p2c
//
// where kr and qr are projections of one table of relative position embeddings, which all layers share.
#pragma once

#include <memory>
#include <optional>

#include "heed/export.h"
#include "heed/nn/attention.h"

namespace HEED_API heed {

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

/// Self-attention with position terms; taps as in heed/nn/attention.h. Holds one [B, H, T, T] tensor, the sum
/// of the terms. A query that Pass::self masks (padding) attends to all tokens equally.
struct DisentangledAttention {
  MultiHeadAttention attention;  ///< `scale` is 1 / sqrt(d * terms)
  std::shared_ptr<const DisentangledPositions> positions;
  std::optional<Linear> position_key = {};    ///< projects positions to kr; without it there is no c2p
  std::optional<Linear> position_query = {};  ///< to qr; without it no p2c
  /// x [B, T, D] to [B, T, D].
  Tensor operator()(const Tensor& x, Pass& pass, PartState* state = nullptr) const;
};

}  // namespace heed
