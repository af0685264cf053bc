// The server as a function of requests: who may ask, what is asked, and when it is answered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/routes.h"
#include "serve/scheduler.h"
#include "serve/services.h"
#include "server/messages.h"
#include "server/worker.h"

namespace heed::serve {

struct AccessOptions {
  std::vector<std::string> keys;     ///< requests need one of them, if there are any
  std::vector<std::string> origins;  ///< of pages of other servers that may ask; `*`: any
  /// The name or address that the server listens on; empty: any name of this server may be asked for, for
  /// servers that other machines can reach.
  std::string host;
  double request_seconds = 600;  ///< from a request to the end of its answer
};

/// Threads: handle() one at a time.
class Application {
 public:
  Application(Services services, AccessOptions access);
  /// Call it after the server has ended, so that nobody waits for answers any more.
  ~Application() = default;
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  /// Answers at once what needs no model, and the rest later. Does not hold up its caller.
  void handle(server::HttpRequest request, std::shared_ptr<server::Reply> reply);
  const Services& services() const { return services_; }
  /// The answer to what could not be read as a request, in the form of the API that has its path.
  static server::HttpResponse error_form(int status, const std::string& message, const std::string& target);

 private:
  void route(const std::shared_ptr<Call>& call, const Route& route);
  void run(const std::shared_ptr<Call>& call, const Route& route);
  void require_access(const server::HttpRequest& request, const Route& route) const;
  bool is_own_page(const server::HttpRequest& request) const;
  std::vector<std::pair<std::string, std::string>> headers_for(const server::HttpRequest& request) const;
  void preflight(Call& call, const std::string& methods) const;

  const Services services_;
  const AccessOptions access_;
  Scheduler scheduler_;
  server::Worker reader_;  // reads and tokenizes; ends first
};

}  // namespace heed::serve
