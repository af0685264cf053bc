// What the handlers of requests use: the models, the scheduler, and the choice of a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/scheduler.h"

namespace heed::serve {

struct Services {
  std::vector<ServedModel> models;
  SchedulerLimits limits;
  std::shared_ptr<CallBook> book = std::make_shared<CallBook>();
  std::int64_t created = 0;  ///< when the server started, in seconds since 1970
};

/// Answers a request, now or later. Throws ApiError.
struct Asked {
  const Services& services;
  Scheduler& scheduler;
  const std::shared_ptr<Call>& call;
  const Fields& fields;
};
using Handler = void (*)(const Asked& asked);

/// What requests may ask of a model, by short names: chat, embedding, ...
Json abilities(const ServedModel& model);

/// The model of a name; `m` is also one that is served as `m.gguf`. Throws ApiError if there is none.
const ServedModel& named_model(const Services& services, std::string_view name);

/// The model that a request names, else the first that `can`, encoders before decoders. Throws ApiError for a
/// name that is unknown, and if no model can.
const ServedModel& chosen_model(const Asked& asked, bool (*can)(const ServedModel&), const char* what);

bool makes_vectors(const ServedModel& model);  ///< every model that reads texts
bool generates(const ServedModel& model);
bool has_labels(const ServedModel& model);  ///< of whole texts
bool ranks(const ServedModel& model);       ///< a single label: of a query and a text
bool predicts_masks(const ServedModel& model);

}  // namespace heed::serve
