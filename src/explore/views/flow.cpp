// The parts that add to a residual stream at one position, with the candidates there, as JSON.
#include "explore/views/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "heed/ops/shape.h"
#include "inspect/stream_flow.h"
#include "inspect/taps.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

using nlohmann::json;

constexpr std::int64_t kNamedCandidates = 50;
/// Logits of larger vocabularies are not sent.
constexpr std::int64_t kMostLogits = 1'000'000;
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

std::optional<inspect::PartEffects> effects_of(const ExploredModel& model, const ExploredText& text,
                                               const inspect::StreamFlow& flow, const Stack& stack,
                                               std::int64_t position, std::int64_t id, Context& context) {
  if (const auto* encoder = as<EncoderModel>(model.model())) {
    if (!text.labels.empty() || encoder->head() == EncoderHead::span || encoder->head() == EncoderHead::none)
      return std::nullopt;
    const auto mask = text.inputs.find("attention_mask");
    return inspect::effects_of_removal(*encoder, mask == text.inputs.end() ? Tensor() : mask->second, flow,
                                       stack, position, id, context);
  }
  const std::optional<ReadOut> read_out = model.model().read_out();
  if (!read_out || read_out->transform.dense) return std::nullopt;
  return inspect::effects_on_logit(flow, *read_out, id);
}

// The candidates of the position, and what each part does for one of them.
std::optional<inspect::PartEffects> add_candidates(json& answer, const ExploredModel& model,
                                                   const ExploredText& text, const inspect::StreamFlow& flow,
                                                   const Stack& stack, const FlowRequest& request,
                                                   Context& context) {
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

json parts_json(const std::vector<inspect::FlowPart>& parts) {
  const auto number = [](const std::optional<double>& x) { return x ? json(*x) : json(nullptr); };
  json list = json::array();
  for (const inspect::FlowPart& part : parts)
    list.push_back({{"name", part.name},
                    {"layer", part.layer},
                    {"head", part.head},
                    {"size", number(part.size)},
                    {"effect", number(part.effect)}});
  return list;
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
  const inspect::StreamFlow flow =
      inspect::stream_flow(model.model(), text.inputs, *stack, request.position,
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
  std::optional<inspect::PartEffects> effects;
  if (predicts(model, *stack)) effects = add_candidates(answer, model, text, flow, *stack, request, context);
  answer["has_effects"] = effects.has_value();
  answer["parts"] = parts_json(inspect::flow_parts(flow, effects.value_or(inspect::PartEffects())));
  return answer;
}

}  // namespace heed::explore
