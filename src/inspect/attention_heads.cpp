// Finds attention among the sublayers of each layer.
#include "inspect/attention_heads.h"

#include <algorithm>

#include "heed/models/model.h"
#include "heed/nn/attention.h"
#include "heed/nn/stack.h"

namespace heed::inspect {
namespace {

std::int64_t heads_of_part(const Part& part) {
  if (const auto* self = part.as<SelfAttention>()) return self->attention.heads;
  if (const auto* cross = part.as<CrossAttention>()) return cross->attention.heads;
  if (const auto* disentangled = part.as<DisentangledAttention>()) return disentangled->attention.heads;
  const auto* linear = part.as<LinearSelfAttention>();
  return linear == nullptr ? 0 : linear->attention.heads;
}

}  // namespace

std::vector<std::int64_t> attention_heads(const Model& model, const AttentionKind& kind) {
  std::vector<std::int64_t> heads;
  const Stack* stack = model.stack_named(kind.stack);
  if (stack == nullptr) return heads;
  for (const Layer& layer : stack->layers) {
    std::int64_t& of_layer = heads.emplace_back(0);
    for (const ResidualStep& step : layer.steps) {
      for (const Sublayer& sublayer : step.sublayers) {
        if (sublayer.name == kind.part) of_layer = heads_of_part(sublayer.part);
      }
    }
  }
  return heads;
}

std::map<std::string, AttentionSize> attention_sizes(const Model& model,
                                                     const std::vector<AttentionKind>& kinds) {
  std::map<std::string, AttentionSize> sizes;
  for (const AttentionKind& kind : kinds) {
    AttentionSize size;
    for (const std::int64_t heads : attention_heads(model, kind)) {
      size.layers += heads > 0 ? 1 : 0;
      size.heads = std::max(size.heads, heads);
    }
    if (size.layers > 0) sizes[kind.name] = size;
  }
  return sizes;
}

}  // namespace heed::inspect
