// `heed serve`: the served models, what computes for them, the choice of a model for a request, and the
// application of all routes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/scheduler/scheduler.h"
#include "server/application.h"
#include "server/fields.h"

namespace heed::serve {

using server::Fields;

/// A text, ids of tokens, or an array of these.
inline constexpr const char* kInputsSchema =
    R"({"anyOf": [{"type": "string"},
                  {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4096},
                  {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                  {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                   "minItems": 1, "maxItems": 4096}]})";

struct Services {
  ServedModels models;
  bool any_name = false;   ///< a name that no model has is as none
  bool compresses = true;  ///< answers, for clients that take gzip
  SchedulerLimits limits;
  std::shared_ptr<Registry> registry = std::make_shared<Registry>();
  std::int64_t created = 0;  ///< when the server started, in seconds since 1970
};

/// The services, and what computes for them.
/// Threads: any.
class Serving {
 public:
  explicit Serving(Services given)
      : services_(std::make_shared<const Services>(std::move(given))),
        scheduler(services_->limits, services_->registry) {}
  /// As they are now, for who holds them.
  std::shared_ptr<const Services> now() const;
  /// Serves other models to requests that come from now on.
  void replace(ServedModels models);

 private:
  mutable std::mutex mutex_;                  // of what follows
  std::shared_ptr<const Services> services_;  // never null

 public:
  Scheduler scheduler;  // ends first
};

/// A request to a model.
struct RequestContext {
  const Services& services;
  Scheduler& scheduler;
  const std::shared_ptr<Call>& call;
  const ServedModel& model;
  const Fields& fields;  ///< which have been read: for errors that name them
};

/// What a route needs of its model: a capability by its name (heed/open/capabilities.h).
struct Need {
  std::string_view capability;
  const char* what;  ///< in words: a model that `makes vectors`
};

bool offers(const ServedModel& model, std::string_view capability);

/// What requests may ask of a model, by short names: chat, embedding, ...
Json abilities(const ServedModel& model);

/// The model of a name or an alias; `m` is also one that is served as `m.gguf`. Null if there is none.
std::shared_ptr<const ServedModel> look_up(const Services& services, std::string_view name);
/// The same. Throws ApiError if there is none.
std::shared_ptr<const ServedModel> named_model(const Services& services, std::string_view name);

/// The model that a request names, else the first that can what is needed, encoders before decoders. Throws
/// ApiError for a name that is unknown, unless any will do, and if no model can.
std::shared_ptr<const ServedModel> chosen_model(const Services& services,
                                                const std::optional<std::string>& name, const Need& need,
                                                Call& call);

/// Threads: handle() one at a time.
class ModelServer {
 public:
  /// `request_seconds`: from a request to the end of its answer.
  explicit ModelServer(Services services, server::AccessOptions access = {}, double request_seconds = 600);

  server::Application& application() { return application_; }
  std::shared_ptr<const Services> services() const { return serving_.now(); }
  /// Whether it is to be started again.
  bool hangs() const { return serving_.scheduler.hangs(); }
  /// Serves these to requests that come from now on; those that have begun end with the models they have.
  void replace(ServedModels models) { serving_.replace(std::move(models)); }

 private:
  Serving serving_;
  server::Application application_;  // reads and tokenizes; ends first
};

/// The fields of all requests as tables in Markdown.
std::string listed_fields();

}  // namespace heed::serve
