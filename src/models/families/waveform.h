// What models that read samples of sound share: the convolutions that make frames of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/input.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "models/weight_builder.h"

namespace heed {

/// norm_after(activation(norm(convolution(x)))).
struct FrameStage {
  Conv1d convolution;
  std::optional<Norm> norm = {};
  Activation activation = Activation::gelu;
  std::optional<Norm> norm_after = {};
};

/// Samples to frames, one stage after the other.
struct FrameStages {
  std::vector<FrameStage> stages;

  InputSpec input() const;
  /// Frames that so many samples give; 0 where they are too few for one.
  std::int64_t frames(std::int64_t samples) const;
  /// Samples [B, samples] to frames [B, T, D]. Throws Error where they are too few for a frame.
  Tensor operator()(const Tensor& samples) const;
};

/// The kernel NAME.weight [out, in / groups, width], with the bias NAME.bias if it has one. In a new model it
/// keeps the variance of what it reads (He et al. 2015, "Delving deep into rectifiers").
Conv1d take_convolution(WeightBuilder& w, const std::string& name, const Shape& shape, std::int64_t stride,
                        bool bias);
/// The norm NAME of `groups` groups of `channels` channels.
Norm take_group_norm(WeightBuilder& w, const std::string& name, std::int64_t groups, std::int64_t channels);

}  // namespace heed
