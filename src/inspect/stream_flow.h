// How much every part adds to a residual stream at one position, and to a logit there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "inspect/stream_sum.h"

namespace heed::inspect {

/// What one pass gives of a stack.
struct StreamFlow {
  std::vector<PartSize> sizes;
  StreamSum sum;      ///< after the last layer, at the position
  Tensor hidden;      ///< of the whole text after the last norm, f32 [1, T, D]
  TensorMap outputs;  ///< of the model
};

/// One forward pass, with the listeners of `changes` before, which add the vectors `added` after layers.
/// Throws Error for a position that does not exist.
StreamFlow stream_flow(const Model& model, const TensorMap& inputs, const Stack& stack, std::int64_t position,
                       const TensorMap& added, Taps& changes, Context& context);

/// By name, layer and head of a part; all embeddings are `embed`.
using PartEffects = std::map<std::tuple<std::string, std::int64_t, std::int64_t>, double>;

/// The terms of attribute_logit().
PartEffects effects_on_logit(const StreamFlow& flow, const ReadOut& read_out, std::int64_t id);
/// What the logit loses when a part is taken out of the stream after the last layer: heads of encoders are
/// not linear. `mask` as that of the model's input, or undefined.
PartEffects effects_of_removal(const EncoderModel& encoder, const Tensor& mask, const StreamFlow& flow,
                               const Stack& stack, std::int64_t position, std::int64_t id, Context& context);

struct FlowPart : StreamPart {
  std::optional<double> size = {}, effect = {};
};
/// The embeddings, the parts with a size in the order of the layers, and those with an effect alone.
std::vector<FlowPart> flow_parts(const StreamFlow& flow, const PartEffects& effects);

}  // namespace heed::inspect
