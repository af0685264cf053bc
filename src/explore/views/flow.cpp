// Sizes and effects of all parts that add to a residual stream, at one position.
#include "explore/views/views.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

using nlohmann::json;

constexpr std::int64_t kNamedCandidates = 50;
/// Logits of larger vocabularies are not sent.
constexpr std::int64_t kMostLogits = 1'000'000;
/// Of the inputs of a head that are computed at once.
constexpr std::int64_t kMostHeadNumbers = 4'000'000;

using PartKey = std::tuple<std::string, std::int64_t, std::int64_t>;
using Effects = std::map<PartKey, double>;

PartKey key_of(const StreamPart& part) { return {part.name, part.layer, part.head}; }

/// What one pass gives of a stack.
struct RecordedFlow {
  std::vector<inspect::PartSize> sizes;
  inspect::StreamSum sum;
  Tensor hidden;      // of the whole text after the last norm, f32 [1, T, D]
  TensorMap outputs;  // of the model
};

RecordedFlow record_flow(const ExploredModel& model, const ExploredText& text, const Stack& stack,
                         std::int64_t position, const TensorMap& added, Taps& changes, Context& context) {
  RecordedFlow flow;
  inspect::StreamRecorder recorder(stack, {{"position", position}}, inspect::end_of(stack), added);
  Taps taps(&changes);
  recorder.listen(taps);
  const std::string last =
      stack.name +
      (stack.final_norm ? ".final_norm" : ".layers." + std::to_string(std::ssize(stack.layers) - 1) + ".out");
  taps.listen(last, [&](const std::string&, Tensor& value) { flow.hidden = value.to(DType::f32).clone(); });
  context.taps = &taps;
  flow.outputs = model.model().forward(text.inputs, {}, context);
  context.taps = nullptr;
  flow.sum = recorder.sum();
  flow.sizes = recorder.sizes();
  return flow;
}

// The logits of a head for each row [C, D] in place of what a text has at `position`: [C].
std::vector<double> head_logits(const EncoderModel& encoder, const RecordedFlow& flow, const Tensor& mask,
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
  return inspect::numbers(slice(logits, 1, id, id + 1).contiguous());
}

// What the logit loses when a part is taken out of the last stream: heads of encoders are not linear.
Effects effects_of_removal(const EncoderModel& encoder, const ExploredText& text, const RecordedFlow& flow,
                           const Stack& stack, std::int64_t position, std::int64_t id, Context& context) {
  const Tensor whole = flow.sum.whole();  // [1, D]
  const std::int64_t count = flow.sum.values.size(0), d = whole.size(1);
  const Tensor without = reshape(whole - flow.sum.values, {count, d});
  const Tensor streams = concat({whole, without}, 0).to(DType::f32);
  const Tensor rows = stack.final_norm ? (*stack.final_norm)(streams) : streams;
  const auto mask = text.inputs.find("attention_mask");
  const Tensor shown = mask == text.inputs.end() ? Tensor() : mask->second;
  const std::int64_t size =
      encoder.head() == EncoderHead::sequence ? flow.hidden.numel() : std::max(d, encoder.vocab_size());
  const std::int64_t step = std::max<std::int64_t>(1, kMostHeadNumbers / size);
  std::vector<double> logits;
  for (std::int64_t first = 0; first <= count; first += step) {
    const Tensor some = slice(rows, 0, first, std::min(count + 1, first + step)).contiguous();
    const std::vector<double> found = head_logits(encoder, flow, shown, some, position, id, context);
    logits.insert(logits.end(), found.begin(), found.end());
  }
  Effects effects;
  for (std::size_t i = 0; i < flow.sum.parts.size(); ++i) {
    const StreamPart& part = flow.sum.parts[i];
    effects[key_of(part.layer < 0 ? StreamPart{.name = "embed"} : part)] += logits[0] - logits[i + 1];
  }
  return effects;
}

Effects effects_on_logit(const RecordedFlow& flow, const ReadOut& read_out, std::int64_t id) {
  Effects effects;
  for (const LogitPart& part : inspect::logit_parts(flow.sum, read_out, id).parts)
    effects[key_of(part)] += part.logit;
  return effects;
}

bool predicts(const ExploredModel& model, const Stack& stack) {
  if (const auto* encoder = as<EncoderModel>(model.model())) return encoder->stack_name() == stack.name;
  return stack.name == "decoder";
}

// Which row of the predictions is of the position; -1: none.
std::int64_t row_of(const PredictedRows& rows, std::int64_t position) {
  for (std::size_t i = 0; i < rows.positions.size(); ++i) {
    if (!rows.positions[i] || *rows.positions[i] == position) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::optional<Effects> effects_of(const ExploredModel& model, const ExploredText& text,
                                  const RecordedFlow& flow, const Stack& stack, std::int64_t position,
                                  std::int64_t id, Context& context) {
  if (const auto* encoder = as<EncoderModel>(model.model())) {
    if (!text.labels.empty() || encoder->head() == EncoderHead::span || encoder->head() == EncoderHead::none)
      return std::nullopt;
    return effects_of_removal(*encoder, text, flow, stack, position, id, context);
  }
  const std::optional<ReadOut> read_out = model.model().read_out();
  if (!read_out || read_out->transform.dense) return std::nullopt;
  return effects_on_logit(flow, *read_out, id);
}

// The candidates of the position, and what each part does for one of them.
std::optional<Effects> add_candidates(json& answer, const ExploredModel& model, const ExploredText& text,
                                      const RecordedFlow& flow, const Stack& stack,
                                      const FlowRequest& request, Context& context) {
  const PredictedRows rows = predicted_rows(model, text, flow.outputs, context);
  const std::int64_t row = rows.logits.defined() ? row_of(rows, request.position) : -1;
  if (row < 0) return std::nullopt;
  const auto at = static_cast<std::size_t>(row);
  const PredictedRows own{
      slice(rows.logits, 0, row, row + 1).contiguous(), {rows.positions[at]}, {rows.of[at]}};
  const std::int64_t count = own.logits.size(1), id = request.id.value_or(ranked(own, 1).front().front().id);
  if (id >= count)
    throw Error("id: expected one below " + std::to_string(count) + ", got " + std::to_string(id));
  answer["candidates"] =
      predictions_json(model, text, own, ranked(own, kNamedCandidates), {}).front().at("candidates");
  answer["id"] = id;
  answer["logit"] = own.logits.data<float>()[id];
  if (count <= kMostLogits) answer["logits"] = row_bytes(own.logits);
  return effects_of(model, text, flow, stack, request.position, id, context);
}

json parts_json(const RecordedFlow& flow, const std::optional<Effects>& effects) {
  json parts = json::array();
  std::optional<Effects> left = effects;
  const auto add = [&](const StreamPart& part, const json& size) {
    json one{
        {"name", part.name}, {"layer", part.layer}, {"head", part.head}, {"size", size}, {"effect", nullptr}};
    if (left) {
      const auto found = left->find(key_of(part));
      if (found != left->end()) {
        one["effect"] = found->second;
        left->erase(found);
      }
    }
    parts.push_back(std::move(one));
  };
  add({.name = "embed"}, nullptr);
  for (const inspect::PartSize& part : flow.sizes) add(part, part.size);
  const Effects others = left.value_or(Effects());
  for (const auto& [key, effect] : others)
    add({std::get<0>(key), std::get<1>(key), std::get<2>(key)}, nullptr);
  return parts;
}

}  // namespace

json flow_json(const ExploredModel& model, const ExploredText& text, const FlowRequest& request,
               Taps& changes, const std::atomic<bool>& stop) {
  const NoGradients guard;
  const std::vector<AttentionKind>& kinds = model.kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const AttentionKind& one) {
    return one.name == request.stack && one.is_self();
  });
  const Stack* stack = kind == kinds.end() ? nullptr : model.model().stack_named(kind->stack);
  if (stack == nullptr)
    throw Error("stack: expected a Transformer's encoder or decoder, whose layers add to a stream, got " +
                plot::shorten(plot::visible(request.stack), 40) + " of " + model.model().family());
  const std::vector<std::string>& tokens = text.tokens.at(kind->name).queries;
  inspect::check_position("position", request.position, std::ssize(tokens));
  Context context{.stop = &stop};
  const RecordedFlow flow = record_flow(model, text, *stack, request.position,
                                        model.steering_of(request.run.steering), changes, context);
  json answer{{"stack", request.stack},
              {"layers", stack->layers.size()},
              {"position", request.position},
              {"tokens", tokens},
              {"candidates", json::array()},
              {"id", nullptr},
              {"logit", nullptr},
              {"logits", nullptr},
              {"linear", as<EncoderModel>(model.model()) == nullptr}};
  std::optional<Effects> effects;
  if (predicts(model, *stack)) effects = add_candidates(answer, model, text, flow, *stack, request, context);
  answer["has_effects"] = effects.has_value();
  answer["parts"] = parts_json(flow, effects);
  return answer;
}

}  // namespace heed::explore
