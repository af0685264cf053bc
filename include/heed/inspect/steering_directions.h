// Steering vectors from two sets of texts: the direction in the residual stream in which the sets differ.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"
#include "heed/models/steering.h"

namespace HEED_API heed {

/// How the direction of a layer is computed from the streams p of the positive texts and n of the negative
/// ones.
enum class SteeringMethod : std::uint8_t {
  mean,  ///< mean(p) - mean(n), with its length (Rimsky et al. 2024, "Steering Llama 2 via contrastive
         ///< activation addition")
  pca,   ///< the unit vector v for which the sum of ((p_i - n_i) . v)^2 over pairs is largest, the first
        ///< principal direction of the differences around 0, with the sign of (mean(p) - mean(n)) . v (Zou et
        ///< al. 2023, "Representation engineering")
};

struct SteeringOptions {
  SteeringMethod method = SteeringMethod::mean;
  /// The stream of a text is the mean over its tokens; else that of its last token.
  bool mean_over_tokens = false;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  ///< counts texts
};

/// The vector of a layer, with measures of the streams of both sets.
struct SteeringDirection {
  SteeringVector vector;
  double stream = 0;     ///< mean length of a text's stream
  double separated = 0;  ///< share of the texts on the correct side of the midpoint between both means
};

/// Returns a vector for the residual stream after every layer (tap `STACK.layers.N.out`) of the stack that
/// predicts, or of the encoder of an encoder-decoder. Texts are token ids. Throws Error for an empty set or
/// text, sets of different sizes with `pca`, a model without layers of sublayers or without tokens, a stream
/// that is not finite, and two sets that do not differ.
std::vector<SteeringDirection> steering_directions(const Model& model,
                                                   std::span<const std::vector<std::int64_t>> positive,
                                                   std::span<const std::vector<std::int64_t>> negative,
                                                   const SteeringOptions& options);

}  // namespace heed
