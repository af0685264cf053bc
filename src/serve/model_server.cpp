// All routes, with the limits of the services.
#include "serve/model_server.h"

#include <iterator>

#include "serve/routes/routes.h"

namespace heed::serve {
namespace {

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
