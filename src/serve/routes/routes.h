// The routes of the server of models: one file of this folder for each topic. A route is the fields of its
// request and a function that answers it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/model_server.h"
#include "server/route.h"

namespace heed::serve {

using server::ErrorForm;
using server::FieldRule;
using server::HttpResponse;
using server::Route;
using Routes = std::vector<Route>;

inline constexpr const char* kServerTopic = "The server";
inline constexpr const char* kUsageShape = R"({"prompt_tokens": "integer", "total_tokens": "integer"})";

// `serving` must outlive what they return; null: for a description.
Routes all_routes(Serving* serving);
Routes model_routes(Serving* serving);
Routes completion_routes(Serving* serving);
Routes response_routes(Serving* serving);
Routes vector_routes(Serving* serving);
Routes label_routes(Serving* serving);
Routes token_routes(Serving* serving);
Routes speech_routes(Serving* serving);
Routes attention_routes(Serving* serving);
Routes translation_routes(Serving* serving);

/// A route to a model that has what is needed, whose requests are of type Request: it passes its fields
/// (Request::walk), with the model if it is made from one.
template <class Request>
Route to_model(Serving* serving, Route route, const Need& need,
               void (*answer)(const RequestContext& context, Request request)) {
  static constexpr const char* kModelNote = "The name of a served model; else the first that can";
  route.walk = [](Fields& fields) {
    std::optional<std::string> name;
    fields("model", name, kModelNote);
    Request().walk(fields);
  };
  route.answer = [serving, need, answer, is_form = route.is_form](const std::shared_ptr<Call>& call,
                                                                  Fields& fields) {
    if (!is_form) call->drop_body();  // the files of a form refer to it
    std::optional<std::string> name;
    fields("model", name, kModelNote);
    const std::shared_ptr<const Services> services = serving->now();
    const std::shared_ptr<const ServedModel> chosen = chosen_model(*services, name, need, *call);
    call->keeps = chosen;
    const ServedModel& model = *chosen;
    const auto made = [&] {
      if constexpr (std::is_constructible_v<Request, const ServedModel&>) {
        return Request(model);
      } else {
        return Request();
      }
    };
    Request request = made();
    request.walk(fields);
    fields.require_known();
    answer({*services, serving->scheduler, call, model, fields}, std::move(request));
  };
  return route;
}

}  // namespace heed::serve
