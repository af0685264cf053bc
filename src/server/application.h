// A server as a function of requests: who may ask, what is asked, and when it is answered.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/route.h"
#include "server/worker_threads.h"

namespace heed::server {

struct ApplicationOptions {
  AccessOptions access = {};
  std::string title = {};                ///< of its OpenAPI document
  ErrorForm errors = ErrorForm::openai;  ///< of paths that no route has
  bool strict = false;                   ///< whether every field of a request must be known
  double request_seconds = 600;          ///< from a request to the end of its answer
  std::int64_t queue = 8;                ///< requests that wait to be read
  bool compresses = false;               ///< long answers, for clients that take gzip
  /// What a request beyond them is told.
  ApiError full = {ErrorCode::overloaded, "too many requests wait (try again later)"};
  std::shared_ptr<Registry> registry = std::make_shared<Registry>();
};

/// Threads: all but routes() one at a time, on the network's thread.
class Application {
 public:
  /// Answers the route of the document, if it is there. The routes are answered one at a time, in slices, but
  /// for those that answer at once; what they do not answer there, others answer later.
  Application(std::vector<Route> routes, ApplicationOptions options);
  /// Call it after the server has ended, so that nobody waits for answers any more.
  ~Application();
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  /// Does not hold up its caller.
  void handle(HttpRequest request, std::shared_ptr<Reply> reply);
  /// Which body a request may have, of which only the headers are known: none for who may not ask.
  Body body_of(const HttpRequest& request) const;
  /// Answers what could not be read as a request, in the form of the route that has its path.
  HttpResponse refuse(int status, const std::string& message, const HttpRequest& request) const;
  /// Lets who has one of these keys ask, and no others, from now on.
  void replace_keys(std::vector<Key> keys);
  const std::vector<Route>& routes() const { return routes_; }

 private:
  /// The queue, as calls know it: they may outlive it.
  struct Later {
    std::mutex mutex;
    WorkQueue* queue = nullptr;
  };
  void enter(const std::shared_ptr<Call>& call, const Route& route);
  void run(const std::shared_ptr<Call>& call, const Route& route) const;
  std::vector<std::pair<std::string, std::string>> headers_for(const HttpRequest& request) const;
  void admit(const HttpRequest& request, const Route* route) const;
  void preflight(Call& call, const std::string& methods) const;

  const std::vector<Route> routes_;
  const ApplicationOptions options_;
  AccessOptions access_;  // of the network's thread
  const std::shared_ptr<KeyUsage> usage_ = std::make_shared<KeyUsage>();
  const std::shared_ptr<Later> later_ = std::make_shared<Later>();
  WorkQueue queue_;  // ends first
};

}  // namespace heed::server
