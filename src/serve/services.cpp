// The choice of a model.
#include "serve/services.h"

namespace heed::serve {

const ServedModel& chosen_model(const Asked& asked, bool (*can)(const ServedModel&), const char* what) {
  const auto name = asked.fields.string("model");
  const ServedModel* chosen = nullptr;
  for (const ServedModel& model : asked.services.models) {
    if (name ? model.name != *name : !can(model)) continue;
    const bool is_better = chosen == nullptr || (chosen->decoder() != nullptr && model.decoder() == nullptr);
    if (is_better) chosen = &model;
  }
  if (chosen == nullptr && name)
    throw ApiError(Problem::not_found, "model: " + json_shown(*name) + " not found (see /v1/models)",
                   "model");
  if (chosen == nullptr)
    throw ApiError(Problem::not_found, std::string("model: none of the served models ") + what, "model");
  asked.call->facts.model = chosen->name;
  if (can(*chosen)) return *chosen;
  throw ApiError(Problem::unsuitable, chosen->name + ": expected a model that " + what + ", got another",
                 "model");
}

bool makes_vectors(const ServedModel& model) { return model.recipes.contains(""); }
bool generates(const ServedModel& model) { return model.decoder() != nullptr; }
bool has_labels(const ServedModel& model) {
  return model.encoder() != nullptr && model.encoder()->head() == EncoderHead::sequence;
}
bool ranks(const ServedModel& model) { return has_labels(model) && model.encoder()->labels().size() == 1; }
bool predicts_masks(const ServedModel& model) {
  return model.encoder() != nullptr && model.encoder()->head() == EncoderHead::masked_lm;
}

}  // namespace heed::serve
