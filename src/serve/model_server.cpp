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
  options.compresses = services.compresses;
  options.full =
      server::overloaded(std::to_string(services.limits.queue) + " requests wait to be read", "--max-queue");
  options.registry = services.registry;
  return options;
}

// As a server of one model answers at its address: by what the first model is for. `others`: all routes.
Route root_route(Serving* serving, const Routes& others) {
  Route root{"POST",
             {"/"},
             ErrorForm::tei,
             kServerTopic,
             "As `/rerank`, `/predict`, `/tag`, `/embed` or `/similarity`, by the first model"};
  std::vector<std::pair<std::string, Route>> candidates;
  for (const auto& [capability, path] : {std::pair{"reranking", "/rerank"},
                                         {"classification", "/predict"},
                                         {"token_classification", "/tag"},
                                         {"embedding", "/embed"}})
    candidates.emplace_back(capability, *server::find_route(others, "POST", path));
  for (const auto& [capability, route] : candidates)
    root.answers.insert(root.answers.end(), route.answers.begin(), route.answers.end());
  const Route& similarity = *server::find_route(others, "POST", "/similarity");
  root.answers.insert(root.answers.end(), similarity.answers.begin(), similarity.answers.end());
  root.walk = [](Fields& fields) {
    const Json* any = nullptr;
    fields.any("inputs", any, "The fields of that route");
  };
  root.answer = [serving, candidates, similarity](const std::shared_ptr<Call>& call, Fields& fields) {
    const std::shared_ptr<const Services> services = serving->now();
    const ServedModel& first = *services->models.front();
    const Json* inputs = fields.reads()->find("inputs");
    if (inputs != nullptr && inputs->is_object()) return similarity.answer(call, fields);
    for (const auto& [capability, route] : candidates) {
      const bool is_decoder = first.decoder() != nullptr;
      if (!is_decoder && offers(first, capability)) return route.answer(call, fields);
    }
    throw ApiError(ErrorCode::unsuitable, "POST /: expected a model of vectors, labels or ranks first, got " +
                                              kind_of(first.model()) + " (use " +
                                              std::string(served_of(first).front().route) + ")");
  };
  return root;
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

std::shared_ptr<const ServedModel> look_up(const Services& services, std::string_view name) {
  for (const auto& model : services.models) {
    if (model->name == name || std::ranges::find(model->aliases, name) != model->aliases.end()) return model;
  }
  for (const auto& model : services.models) {
    const std::string_view own = model->name;
    if (own.ends_with(kGguf) && own.substr(0, own.size() - kGguf.size()) == name) return model;
  }
  return nullptr;
}

std::shared_ptr<const ServedModel> named_model(const Services& services, std::string_view name) {
  if (auto found = look_up(services, name)) return found;
  throw ApiError(ErrorCode::no_model,
                 "model: " + json_shown(std::string(name)) + " not found (see /v1/models)", "model");
}

std::shared_ptr<const ServedModel> chosen_model(const Services& services,
                                                const std::optional<std::string>& name, const Need& need,
                                                Call& call) {
  std::shared_ptr<const ServedModel> chosen = name ? look_up(services, *name) : nullptr;
  if (name && chosen == nullptr && !services.any_name) named_model(services, *name);  // throws
  const bool is_named = chosen != nullptr;
  for (const auto& model : services.models) {
    if (is_named || !offers(*model, need.capability)) continue;
    const bool is_better = chosen == nullptr || (chosen->decoder() != nullptr && model->decoder() == nullptr);
    if (is_better) chosen = model;
  }
  if (chosen == nullptr)
    throw ApiError(ErrorCode::not_found, std::string("model: none of the served models ") + need.what,
                   "model");
  call.record.model = chosen->name;
  if (offers(*chosen, need.capability)) return chosen;
  std::vector<std::string> instead;
  for (const Capability& one : served_of(*chosen)) instead.emplace_back(one.route);
  throw ApiError(ErrorCode::unsuitable,
                 chosen->name + ": expected a model that " + need.what + ", got " + kind_of(chosen->model()) +
                     " (use " + joined(instead) + ")",
                 "model");
}

Routes all_routes(Serving* serving) {
  Routes all;
  for (const auto of_topic : {model_routes, completion_routes, response_routes, vector_routes, label_routes,
                              token_routes, speech_routes, translation_routes, attention_routes}) {
    Routes some = of_topic(serving);
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  all.push_back(root_route(serving, all));
  return all;
}

std::shared_ptr<const Services> Serving::now() const {
  const std::lock_guard lock(mutex_);
  return services_;
}

void Serving::replace(ServedModels models) {
  ServedModels retired;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : services_->models) {
      if (std::ranges::find(models, one) == models.end()) retired.push_back(one);
    }
    Services other = *services_;
    other.models = std::move(models);
    services_ = std::make_shared<const Services>(std::move(other));
  }
  scheduler.retire(std::move(retired));
}

ModelServer::ModelServer(Services services, server::AccessOptions access, double request_seconds)
    : serving_(std::move(services)),
      application_(all_routes(&serving_), options_of(*serving_.now(), std::move(access), request_seconds)) {}

std::string listed_fields() { return server::field_tables(all_routes(nullptr)); }

}  // namespace heed::serve
