// What turns the inputs of a model into those of its first layer: token ids, or audio features.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "heed/nn/convolution.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/nn/positions.h"

namespace heed {

/// The sum of token, token type and position embeddings, with a norm and dropout.
struct InputEmbeddings {
  Embedding tokens;                     // [V, E]
  std::optional<Norm> token_norm = {};  // of the tokens alone (BLOOM)
  Tensor token_types = {};              // [token types, E], or undefined
  std::optional<AdditivePositions> positions = {};
  std::optional<std::int64_t> unpositioned =
      {};                         // position ids skip this id, which gets -1 (RoBERTa, M2M100)
  std::optional<Norm> norm = {};  // of the sum
  double dropout = 0.0;
  std::optional<Linear> projection = {};  // from E to D (ALBERT)

  /// ids and type_ids (or undefined for all 0) i64 [B, T] to [B, T, D].
  Tensor operator()(const Tensor& ids, const PositionIds& position_ids, Context& context,
                    const Tensor& type_ids = {}) const;
};

/// TensorRow::fill of a table of sinusoidal positions.
std::function<void(Tensor)> sinusoidal_fill(SinusoidLayout layout);

/// Audio features f32 [B, bins, frames] to [B, T, D]: two convolutions with GELU, then positions.
struct AudioFrontend {
  std::int64_t bins = 0, frames = 0;
  Conv1d first, second;
  AdditivePositions positions;
  double dropout = 0.0;
  Tensor operator()(const Tensor& features, Context& context) const;
};

}  // namespace heed
