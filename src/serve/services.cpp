// The choice of a model, and what each can do.
#include "serve/services.h"

#include <algorithm>

#include "core/strings.h"
#include "heed/api/loaded_model.h"
#include "serve/attend.h"

namespace heed::serve {
namespace {

constexpr std::string_view kGguf = ".gguf";

struct Ability {
  const char* name;
  const char* route;
  bool (*has)(const ServedModel&);
};
constexpr Ability kAbilities[] = {
    {"chat", "/v1/chat/completions", [](const ServedModel& model) { return model.chat.has_value(); }},
    {"completion", "/v1/completions", generates},
    {"reranking", "/rerank", ranks},
    {"classification", "/predict", has_labels},
    {"embedding", "/v1/embeddings", makes_vectors},
    {"sparse_embedding", "/embed_sparse", predicts_masks},
    {"translation", "/translate",
     [](const ServedModel& model) { return model.encoder_decoder() != nullptr && makes_vectors(model); }},
    {"transcription", "/v1/audio/transcriptions",
     [](const ServedModel& model) { return model.transcriber.has_value(); }},
    {"attention", "/attend", attends},
};

}  // namespace

Json abilities(const ServedModel& model) {
  Json names = Json::array();
  for (const Ability& one : kAbilities) {
    if (one.has(model)) names.push_back(one.name);
  }
  return names;
}

const ServedModel& named_model(const Services& services, std::string_view name) {
  for (const ServedModel& model : services.models) {
    if (model.name == name) return model;
  }
  for (const ServedModel& model : services.models) {
    const std::string_view own = model.name;
    if (own.ends_with(kGguf) && own.substr(0, own.size() - kGguf.size()) == name) return model;
  }
  throw ApiError(Problem::no_model, "model: " + json_shown(std::string(name)) + " not found (see /v1/models)",
                 "model");
}

const ServedModel& chosen_model(const Asked& asked, bool (*can)(const ServedModel&), const char* what) {
  const auto name = asked.fields.string("model");
  const ServedModel* chosen = name ? &named_model(asked.services, *name) : nullptr;
  for (const ServedModel& model : asked.services.models) {
    if (name || !can(model)) continue;
    const bool is_better = chosen == nullptr || (chosen->decoder() != nullptr && model.decoder() == nullptr);
    if (is_better) chosen = &model;
  }
  if (chosen == nullptr)
    throw ApiError(Problem::not_found, std::string("model: none of the served models ") + what, "model");
  asked.call->facts.model = chosen->name;
  if (can(*chosen)) return *chosen;
  std::vector<std::string> instead;
  for (const Ability& one : kAbilities) {
    if (one.has(*chosen)) instead.emplace_back(one.route);
  }
  throw ApiError(Problem::unsuitable,
                 chosen->name + ": expected a model that " + what + ", got " + kind_of(*chosen->model) +
                     " (use " + joined(instead) + ")",
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
