// The paths of the server: the page, and what it asks for.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "explore/explorer.h"
#include "server/http_server.h"

namespace heed::explore {

/// Threads: at_once() at any time, compute() one at a time.
class Application {
 public:
  /// `host`: see refusal().
  Application(Explorer& explorer, std::string host, std::string token);

  /// Refuses and answers what needs no model: the page, the list of models, packs. Nothing for what computes.
  std::optional<server::HttpResponse> at_once(const server::HttpRequest& request) const;
  /// Whether a request, of which only the headers are known, may send a file: a large body.
  bool has_file(const server::HttpRequest& request) const;
  /// Files, runs, tokens and ablations. Throws Canceled once `stop` is true.
  server::HttpResponse compute(const server::HttpRequest& request, const std::atomic<bool>& stop);

 private:
  server::HttpResponse pack(const server::HttpRequest& request) const;

  Explorer& explorer_;
  std::string host_, token_, models_;
};

}  // namespace heed::explore
