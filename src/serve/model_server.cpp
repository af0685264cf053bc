// The choice of a model, what each can do, and all routes, with the limits of the services.
#include "serve/model_server.h"

#include <algorithm>
#include <iterator>

#include "core/strings.h"
#include "heed/models/kind.h"
#include "heed/open/capabilities.h"
#include "serve/routes/routes.h"

namespace heed::serve {
namespace {

constexpr std::string_view kGguf = ".gguf";

// What the server answers of a model.
std::vector<Capability> served_of(const ServedModel& model) {
  return served_for(model.model(), model.has_chat);
}

server::ApplicationOptions options_of(const Services& services, server::AccessOptions access,
                                      double request_seconds) {
  server::ApplicationOptions options;
  options.access = std::move(access);
  options.title = "heed serve";
  options.request_seconds = request_seconds;
  options.queue = services.limits.queue;
  options.full =
      server::overloaded(std::to_string(services.limits.queue) + " requests wait to be read", "--max-queue");
  options.registry = services.registry;
  return options;
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

Routes all_routes(Serving* serving) {
  Routes all;
  for (const auto of_topic : {model_routes, completion_routes, vector_routes, label_routes, token_routes,
                              speech_routes, translation_routes, attention_routes}) {
    Routes some = of_topic(serving);
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

ModelServer::ModelServer(Services services, server::AccessOptions access, double request_seconds)
    : serving_(std::move(services)),
      application_(all_routes(&serving_), options_of(serving_.services, std::move(access), request_seconds)) {
}

std::string listed_fields() { return server::field_tables(all_routes(nullptr)); }

}  // namespace heed::serve
