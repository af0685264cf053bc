// Frames of sound.
#include "models/families/waveform.h"

#include <cmath>

#include "heed/error.h"
#include "heed/ops/activation.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

constexpr double kGroupNormEps = 1e-5;

}  // namespace

InputSpec FrameStages::input() const {
  std::int64_t hop = 1;
  for (const FrameStage& stage : stages) hop *= stage.convolution.stride;
  InputSpec input{InputKind::waveform, {-1}, "input_values"};
  input.frame = {samples_of_frame(), hop};
  return input;
}

std::int64_t FrameStages::samples_of_frame() const {
  std::int64_t least = 1;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    least = (least - 1) * stage->convolution.stride + stage->convolution.weight.size(2);
  return least;
}

std::int64_t FrameStages::frames(std::int64_t samples) const {
  for (const FrameStage& stage : stages) {
    const std::int64_t width = stage.convolution.weight.size(2);
    if (samples < width) return 0;
    samples = (samples - width) / stage.convolution.stride + 1;
  }
  return samples;
}

Tensor FrameStages::operator()(const Tensor& samples) const {
  if (frames(samples.size(1)) == 0) {
    throw Error("encode: input_values: expected at least " + std::to_string(samples_of_frame()) +
                " samples, got " + samples.str());
  }
  Tensor x = unsqueeze(samples, 2);
  for (const FrameStage& stage : stages) {
    x = stage.norm ? activate((*stage.norm)(stage.convolution(x)), stage.activation)
                   : stage.convolution(x, stage.activation);
    if (stage.norm_after) x = (*stage.norm_after)(x);
  }
  return x;
}

Conv1d take_convolution(WeightBuilder& w, const std::string& name, const Shape& shape, std::int64_t stride,
                        bool bias) {
  const double inputs = static_cast<double>(shape[1]) * static_cast<double>(shape[2]);
  Conv1d layer{
      w.tensor({.name = name + ".weight", .shape = shape, .init_std = std::sqrt(2.0 / inputs)}), {}, stride};
  if (bias) layer.bias = w.bias(name + ".bias", shape[0]);
  return layer;
}

Norm take_group_norm(WeightBuilder& w, const std::string& name, std::int64_t groups, std::int64_t channels) {
  Norm norm = w.layer_norm(name, channels, kGroupNormEps);
  norm.kind = NormKind::group;
  norm.groups = groups;
  return norm;
}

}  // namespace heed
