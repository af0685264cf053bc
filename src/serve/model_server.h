// `heed serve`: the application of the routes of models, and what computes for them.
#pragma once

#include "serve/services.h"
#include "server/application.h"

namespace heed::serve {

/// Threads: handle() one at a time.
class ModelServer {
 public:
  /// `request_seconds`: from a request to the end of its answer.
  explicit ModelServer(Services services, server::AccessOptions access = {}, double request_seconds = 600);

  server::Application& application() { return application_; }
  const Services& services() const { return serving_.services; }

 private:
  Serving serving_;
  server::Application application_;  // reads and tokenizes; ends first
};

/// The fields of all requests as tables in Markdown.
std::string listed_fields();

}  // namespace heed::serve
