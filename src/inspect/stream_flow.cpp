// Records a stream, and takes its parts out of it.
#include "inspect/stream_flow.h"

#include <algorithm>

#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed::inspect {
namespace {

/// Of the inputs of a head that are computed at once.
constexpr std::int64_t kMostHeadNumbers = 4'000'000;

PartEffects::key_type key_of(const StreamPart& part) { return {part.name, part.layer, part.head}; }

// The logits of a head for each row [C, D] in place of what a text has at `position`: [C].
std::vector<double> head_logits(const EncoderModel& encoder, const StreamFlow& flow, const Tensor& mask,
                                const Tensor& rows, std::int64_t position, std::int64_t id,
                                Context& context) {
  const std::int64_t count = rows.size(0);
  Tensor logits;
  if (encoder.head() != EncoderHead::sequence) {
    logits = encoder.predict(rows, {}, context);
  } else {
    const Tensor texts = concat(std::vector<Tensor>(static_cast<std::size_t>(count), flow.hidden), 0);
    slice(texts, 1, position, position + 1).copy_from(unsqueeze(rows, 1));
    const Tensor masks =
        mask.defined() ? concat(std::vector<Tensor>(static_cast<std::size_t>(count), mask), 0) : Tensor();
    logits = encoder.predict(texts, masks, context);
  }
  return numbers(slice(logits, 1, id, id + 1).contiguous());
}

}  // namespace

StreamFlow stream_flow(const Model& model, const TensorMap& inputs, const Stack& stack, std::int64_t position,
                       const TensorMap& added, Taps& changes, Context& context) {
  StreamFlow flow;
  StreamRecorder recorder(stack, {{"position", position}}, end_of(stack), added);
  Taps taps(&changes);
  recorder.listen(taps);
  const std::string last =
      stack.name +
      (stack.final_norm ? ".final_norm" : ".layers." + std::to_string(std::ssize(stack.layers) - 1) + ".out");
  taps.listen(last, [&](const std::string&, Tensor& value) { flow.hidden = value.to(DType::f32).clone(); });
  context.taps = &taps;
  flow.outputs = model.forward(inputs, {}, context);
  context.taps = nullptr;
  flow.sum = recorder.sum();
  flow.sizes = recorder.sizes();
  return flow;
}

PartEffects effects_on_logit(const StreamFlow& flow, const ReadOut& read_out, std::int64_t id) {
  PartEffects effects;
  for (const LogitPart& part : logit_parts(flow.sum, read_out, id).parts) effects[key_of(part)] += part.logit;
  return effects;
}

PartEffects effects_of_removal(const EncoderModel& encoder, const Tensor& mask, const StreamFlow& flow,
                               const Stack& stack, std::int64_t position, std::int64_t id, Context& context) {
  const Tensor whole = flow.sum.whole();  // [1, D]
  const std::int64_t count = flow.sum.values.size(0), d = whole.size(1);
  const Tensor without = reshape(whole - flow.sum.values, {count, d});
  const Tensor streams = concat({whole, without}, 0).to(DType::f32);
  const Tensor rows = stack.final_norm ? (*stack.final_norm)(streams) : streams;
  const std::int64_t size =
      encoder.head() == EncoderHead::sequence ? flow.hidden.numel() : std::max(d, encoder.vocab_size());
  const std::int64_t step = std::max<std::int64_t>(1, kMostHeadNumbers / size);
  std::vector<double> logits;
  for (std::int64_t first = 0; first <= count; first += step) {
    const Tensor some = slice(rows, 0, first, std::min(count + 1, first + step)).contiguous();
    const std::vector<double> found = head_logits(encoder, flow, mask, some, position, id, context);
    logits.insert(logits.end(), found.begin(), found.end());
  }
  PartEffects effects;
  for (std::size_t i = 0; i < flow.sum.parts.size(); ++i) {
    const StreamPart& part = flow.sum.parts[i];
    effects[key_of(part.layer < 0 ? StreamPart{.name = "embed"} : part)] += logits[0] - logits[i + 1];
  }
  return effects;
}

std::vector<FlowPart> flow_parts(const StreamFlow& flow, const PartEffects& effects) {
  PartEffects left = effects;
  std::vector<FlowPart> parts;
  const auto add = [&](const StreamPart& part, std::optional<double> size) {
    FlowPart& one = parts.emplace_back(FlowPart{part, size});
    const auto found = left.find(key_of(part));
    if (found == left.end()) return;
    one.effect = found->second;
    left.erase(found);
  };
  add({.name = "embed"}, std::nullopt);
  for (const PartSize& part : flow.sizes) add(part, part.size);
  for (const auto& [key, effect] : left)
    parts.push_back({{std::get<0>(key), std::get<1>(key), std::get<2>(key)}, std::nullopt, effect});
  return parts;
}

}  // namespace heed::inspect
