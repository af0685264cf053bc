// Measures of attention heads over texts, images or sounds: where they look, and how much they add. Threads:
// several may run a model at once, within NoGradients.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

/// One head, measured over the queries of all texts, images or sounds. A share is a sum of weights, from 0
/// to 1. Of cross-attention, whose keys are other tokens than its queries, previous, duplicate, induction and
/// distance are 0; of images and sounds, which have no tokens, previous, duplicate, induction and separator.
struct HeadMeasures {
  std::int64_t layer = 0, head = 0;
  double previous = 0;   ///< share of the token before the query's
  double duplicate = 0;  ///< share of other positions with the query's token, over queries that have one
  /// Share of the tokens that follow earlier occurrences of the query's token, over queries that have one
  /// (Olsson et al. 2022, "In-context learning and induction heads").
  double induction = 0;
  double entropy = 0;  ///< of a row of weights, in nats
  /// Mean of |query - key|; of images and sounds the distance of patches in their grid, weighted by the
  /// weights on patches, over the queries that are patches (Dosovitskiy et al. 2021, "An image is worth
  /// 16x16 words").
  double distance = 0;
  double first = 0;      ///< share of the first token, over later queries (of cross-attention, over all)
  double separator = 0;  ///< share of the separator tokens
  /// Length of what the head adds to the residual stream, over that of the stream before the attention. A
  /// norm or multiplier between attention and stream counts.
  double size = 0;
  bool dead = false;  ///< size below 1e-3
  /// The nearest other head of the layer, and half the mean L1 distance of their rows of weights.
  std::int64_t nearest = -1;
  double nearest_distance = 1;
  bool redundant = false;  ///< nearest_distance below 0.05
};

struct HeadsOptions {
  std::string stack = "decoder", part = "self_attn";  ///< or `encoder`, `cross_attn`
  std::set<std::int64_t> separators = {};
  Taps* taps = nullptr;  ///< further listeners: replacements that all measures are with
};

/// Throws Error for a model without such an attention, or without a text of at least two tokens.
std::vector<HeadMeasures> measure_heads(const Model& model, std::span<const TensorMap> texts,
                                        const HeadsOptions& options);

}  // namespace heed
