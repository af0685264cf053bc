// Finds the attention of a layer among its sublayers.
#include "explore/attention_part.h"

#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/stack.h"

namespace heed::explore {
namespace {

void find_attention(AttentionPart& found, const Part& part) {
  if (const auto* self = part.as<SelfAttention>()) found.attention = &self->attention;
  if (const auto* cross = part.as<CrossAttention>()) found.attention = &cross->attention;
  if (const auto* disentangled = part.as<DisentangledAttention>()) {
    found.attention = &disentangled->attention;
    found.disentangled = true;
  }
}

}  // namespace

double AttentionPart::scale(std::int64_t d) const {
  return attention->scale.value_or(1 / std::sqrt(static_cast<double>(d)));
}

AttentionPart attention_part(const ExploredModel& model, const AttentionKind& kind, std::int64_t layer) {
  AttentionPart found{.name = kind.stack + ".layers." + std::to_string(layer) + "." + kind.part};
  const Stack* stack = model.model().stack_named(kind.stack);
  if (stack == nullptr || layer >= std::ssize(stack->layers)) return found;
  for (const ResidualStep& step : stack->layers[static_cast<std::size_t>(layer)].steps) {
    for (const Sublayer& sublayer : step.sublayers) {
      if (sublayer.name == kind.part) find_attention(found, sublayer.part);
    }
  }
  return found;
}

}  // namespace heed::explore
