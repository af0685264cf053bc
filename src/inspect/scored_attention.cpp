// Finds an attention among the sublayers of a layer.
#include "inspect/scored_attention.h"

#include <cmath>

namespace heed::inspect {

double ScoredAttention::scale(std::int64_t d) const {
  return attention->scale.value_or(1 / std::sqrt(static_cast<double>(d)));
}

ScoredAttention scored_attention(const Model& model, const std::string& stack, const std::string& part,
                                 std::int64_t layer) {
  ScoredAttention found{.name = stack + ".layers." + std::to_string(layer) + "." + part};
  const Stack* layers = model.stack_named(stack);
  if (layers == nullptr || layer < 0 || layer >= std::ssize(layers->layers)) return found;
  const std::vector<ResidualStep>& steps = layers->layers[static_cast<std::size_t>(layer)].steps;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const Sublayer& sublayer : steps[step].sublayers) {
      if (sublayer.name != part) continue;
      found.sublayer = &sublayer;
      found.step = step;
      if (const auto* self = sublayer.part.as<SelfAttention>()) found.attention = &self->attention;
      const auto* cross = sublayer.part.as<CrossAttention>();
      found.is_cross = cross != nullptr;
      if (found.is_cross) found.attention = &cross->attention;
      const auto* disentangled = sublayer.part.as<DisentangledAttention>();
      found.disentangled = disentangled != nullptr;
      if (found.disentangled) found.attention = &disentangled->attention;
    }
  }
  return found;
}

}  // namespace heed::inspect
