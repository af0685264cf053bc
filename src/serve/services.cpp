// The choice of a model, and what each can do.
#include "serve/services.h"

#include <algorithm>

#include "core/strings.h"
#include "heed/models/kind.h"
#include "heed/open/capabilities.h"

namespace heed::serve {
namespace {

constexpr std::string_view kGguf = ".gguf";

// What the server answers of a model.
std::vector<Capability> served_of(const ServedModel& model) {
  return served_for(model.model(), model.has_chat);
}

}  // namespace

bool offers(const ServedModel& model, std::string_view capability) {
  const std::vector<Capability> served = served_of(model);
  return std::any_of(served.begin(), served.end(),
                     [&](const Capability& one) { return one.name == capability; });
}

Json abilities(const ServedModel& model) {
  Json names = Json::array();
  for (const Capability& one : served_of(model)) names.push_back(std::string(one.name));
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
  throw ApiError(ErrorCode::no_model,
                 "model: " + json_shown(std::string(name)) + " not found (see /v1/models)", "model");
}

const ServedModel& chosen_model(const Services& services, const std::optional<std::string>& name,
                                const Need& need, Call& call) {
  const ServedModel* chosen = name ? &named_model(services, *name) : nullptr;
  for (const ServedModel& model : services.models) {
    if (name || !offers(model, need.capability)) continue;
    const bool is_better = chosen == nullptr || (chosen->decoder() != nullptr && model.decoder() == nullptr);
    if (is_better) chosen = &model;
  }
  if (chosen == nullptr)
    throw ApiError(ErrorCode::not_found, std::string("model: none of the served models ") + need.what,
                   "model");
  call.record.model = chosen->name;
  if (offers(*chosen, need.capability)) return *chosen;
  std::vector<std::string> instead;
  for (const Capability& one : served_of(*chosen)) instead.emplace_back(one.route);
  throw ApiError(ErrorCode::unsuitable,
                 chosen->name + ": expected a model that " + need.what + ", got " + kind_of(chosen->model()) +
                     " (use " + joined(instead) + ")",
                 "model");
}

}  // namespace heed::serve
