// What there is on a server: its models, its state, its counts.
#include <limits>

#include "heed/version.h"
#include "serve/routes/routes.h"
#include "serve/routes/text_inputs.h"
#include "server/access.h"

namespace heed::serve {
namespace {

using CallPointer = std::shared_ptr<Call>;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Of a text that is read, or of a prompt with its answer.
std::int64_t most_tokens(const ServedModel& model) {
  return model.decoder() != nullptr ? model.context() : longest_text(model, &model.recipes.at("").unit);
}

Json model_json(const Services& services, const ServedModel& model) {
  Json json = {{"id", model.name},   {"object", "model"},        {"created", services.created},
               {"owned_by", "heed"}, {"max_model_len", nullptr}, {"capabilities", abilities(model)}};
  const std::int64_t length = model.recipes.empty() ? kUnlimited : most_tokens(model);
  if (length < kUnlimited) json["max_model_len"] = length;
  if (!model.aliases.empty()) json["aliases"] = model.aliases;
  if (model.model().takes_int8()) json["activations"] = "int8";
  return json;
}

// As TEI calls them; the others are heed's own.
const char* pooling_name(const EmbeddingRecipe& recipe) {
  if (recipe.poolings.size() != 1) return recipe.poolings.empty() ? "model" : "several";
  switch (recipe.poolings.front()) {
    case Pooling::cls: return "cls";
    case Pooling::max: return "max";
    case Pooling::mean: return "mean";
    case Pooling::mean_sqrt: return "mean_sqrt";
    case Pooling::weighted_mean: return "weighted_mean";
    case Pooling::last: return "last_token";
  }
  HEED_ASSERT(false, "unknown pooling");
}

HttpResponse status_answer(const char* wrong) {
  return {wrong != nullptr ? 503 : 200, json_text(Json{{"status", wrong != nullptr ? wrong : "ok"}})};
}

// Whether the server answers, or null. One that hangs is to be started again.
const char* illness_of(const Scheduler& scheduler, bool stopping) {
  return stopping ? "stopping" : scheduler.hangs() ? "hanging" : nullptr;
}

Json list_of(const Services& services) {
  Json list = Json::array();
  for (const auto& one : services.models) list.push_back(model_json(services, *one));
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json overview_of(const Services& services) {
  Json names = Json::array(), paths = Json::array();
  for (const auto& one : services.models) names.push_back(one->name);
  for (const Route& route : all_routes(nullptr))
    paths.push_back(std::string(route.method) + " " + route.paths.front());
  return {{"server", std::string("heed ") + version()},
          {"models", std::move(names)},
          {"routes", std::move(paths)},
          {"documentation", "/openapi.json; heed serve --help; docs/serve.md of heed"}};
}

// Of a path `/v1/models/ID`.
Json named_json(const Services& services, const Call& call) {
  const std::string_view path = server::path_of(call.request().target);
  const std::string name = server::percent_decoded(path.substr(path.find("models/") + 7));
  return model_json(services, *named_model(services, name));
}

Json info_of(const Services& services, Call& call) {
  const std::string named = server::percent_decoded(server::parameter_of(call.request().target, "model"));
  const auto chosen = chosen_model(services, named.empty() ? std::nullopt : std::optional(named),
                                   {"embedding", "reads texts"}, call);
  const ServedModel& model = *chosen;
  Json type = {{"embedding", {{"pooling", pooling_name(model.recipes.at("").unit)}}}};
  if (offers(model, "classification")) {
    Json names = Json::object(), ids = Json::object();
    for (std::size_t i = 0; i < model.encoder()->labels().size(); ++i) {
      names[std::to_string(i)] = model.encoder()->labels()[i];
      ids[model.encoder()->labels()[i]] = i;
    }
    const char* kind = model.encoder()->labels().size() == 1 ? "reranker" : "classifier";
    type = {{kind, {{"id2label", names}, {"label2id", ids}}}};
  }
  return {{"model_id", model.name},
          {"model_sha", nullptr},
          {"model_dtype", "float32"},
          {"model_type", type},
          {"max_concurrent_requests", services.limits.queue},
          {"max_input_length", longest_text(model, &model.recipes.at("").unit)},
          {"max_batch_tokens", services.limits.batch_tokens},
          {"max_client_batch_size", kMostInputs},
          {"auto_truncate", true},
          {"tokenization_workers", 1},
          {"version", version()}};
}

}  // namespace

Routes model_routes(Serving* serving) {
  const auto get = [](std::vector<const char*> paths, ErrorForm errors, const char* summary,
                      std::vector<server::AnswerForm> answers, auto answer) {
    return Route{"GET", std::move(paths), errors, kServerTopic, summary, std::move(answers), answer};
  };
  const std::vector<server::AnswerForm> state = {{.shape = R"({"status": "string"})"},
                                                 {.shape = R"({"status": "string"})", .status = 503}};
  const std::string model =
      R"({"id": "string", "object": "=model", "created": "integer", "owned_by": "string",
          "max_model_len": "integer|null", "capabilities": ["string"], "aliases?": ["string"],
          "activations?": "=int8"})";
  const std::string labels = R"({"id2label": {"*": "string"}, "label2id": {"*": "integer"}})";
  const auto json = [serving](Json (*made)(const Services&)) {
    return [serving, made](const CallPointer& call, Fields&) { call->answer(made(*serving->now())); };
  };
  Route health = get({"/health", "/v1/health", "/ping"}, ErrorForm::openai,
                     "Whether the server answers: 503 once it stops, and if a computation hangs", state,
                     [serving](const CallPointer& call, Fields&) {
                       call->answer(status_answer(illness_of(serving->scheduler, call->request().stopping)));
                     });
  Route ready = get({"/ready"}, ErrorForm::openai,
                    "Whether it takes a request now: as /health, and 503 if too many wait", state,
                    [serving](const CallPointer& call, Fields&) {
                      const char* ill = illness_of(serving->scheduler, call->request().stopping);
                      const char* full = serving->scheduler.is_full() ? "full" : nullptr;
                      call->answer(status_answer(ill != nullptr ? ill : full));
                    });
  for (Route* route : {&health, &ready})
    route->is_public = route->any_host = route->at_once = route->is_always = true;
  Route metrics = get({"/metrics"}, ErrorForm::openai, "Counts and times, for Prometheus",
                      {{.type = "text/plain"}}, [serving](const CallPointer& call, Fields&) {
                        call->answer(HttpResponse{200, serving->now()->registry->metrics.text(),
                                                  "text/plain; version=0.0.4"});
                      });
  metrics.at_once = true;
  return {
      std::move(health),
      std::move(ready),
      std::move(metrics),
      server::document_route(kServerTopic),
      get({"/"}, ErrorForm::openai, "The models and routes, in short",
          {{R"({"server": "string", "models": ["string"], "routes": ["string"], "documentation": "string"})"}},
          json(overview_of)),
      get({"/version"}, ErrorForm::openai, "The version of heed", {{R"({"version": "string"})"}},
          json([](const Services&) {
            return Json{{"version", version()}};
          })),
      get({"/v1/models", "/models"}, ErrorForm::openai, "The served models",
          {{R"({"object": "=list", "data": [)" + model + "]}"}}, json(list_of)),
      get({"/v1/models/{model}", "/models/{model}"}, ErrorForm::openai, "A served model", {{model}},
          [serving](const CallPointer& call, Fields&) { call->answer(named_json(*serving->now(), *call)); }),
      get({"/info"}, ErrorForm::tei, "A model (?model=NAME, else the first), and the limits",
          {{R"({"model_id": "string", "model_sha": "null", "model_dtype": "string",
                "model_type": {"embedding?": {"pooling": "string"}, "classifier?": )" +
            labels + R"(, "reranker?": )" + labels +
            R"(}, "max_concurrent_requests": "integer", "max_input_length": "integer",
                "max_batch_tokens": "integer", "max_client_batch_size": "integer", "auto_truncate": "boolean",
                "tokenization_workers": "integer", "version": "string"})"}},
          [serving](const CallPointer& call, Fields&) { call->answer(info_of(*serving->now(), *call)); }),
  };
}

}  // namespace heed::serve
