// The server's application without sockets: requests and answers as values.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "serve/model_server.h"
#include "server/received.h"

namespace heed::serve_test {

using server_test::Received;

struct Answer {
  int status = 0;
  std::string text;
  Json json;  // null if it is none
  std::vector<std::pair<std::string, std::string>> headers;
  std::string header(const std::string& name) const;
  /// The data of server-sent events, without `[DONE]`, which must be the last.
  std::vector<Json> events() const;
};

server::HttpRequest request_of(const std::string& method, const std::string& target,
                               const std::string& body = "");

/// The first place of a value that is not as a schema of an answer says; empty: none. A member that the
/// schema does not have is one. `document` has what schemas refer to.
std::string fault_of(const Json& value, const Json& schema, const Json& document,
                     const std::string& place = "");

/// Each answer is checked with the document of its server.
class Asking {
 public:
  explicit Asking(std::vector<serve::ServedModel> models, server::AccessOptions access = {},
                  serve::SchedulerLimits limits = {}, double request_seconds = 600);
  ~Asking();
  Answer ask(const server::HttpRequest& request);
  Answer get(const std::string& target) { return ask(request_of("GET", target)); }
  Answer post(const std::string& target, const Json& body) { return post_text(target, json_text(body)); }
  Answer post_text(const std::string& target, const std::string& body) {
    return ask(request_of("POST", target, body));
  }
  std::shared_ptr<Received> begin(const server::HttpRequest& request);
  std::vector<std::string> log();
  void replace(serve::ServedModels models) { server_.replace(std::move(models)); }
  std::shared_ptr<const serve::Services> services() const { return server_.services(); }
  const server::Application& application() { return server_.application(); }

 private:
  /// Expects an answer of the form that /openapi.json has for it.
  void check(const server::HttpRequest& request, const server::HttpResponse& response);

  std::mutex mutex_;
  std::vector<std::string> log_;
  std::vector<std::shared_ptr<Received>> begun_;
  serve::ModelServer server_;
  const Json document_;
};

/// What the events of a stream tell of a choice.
std::string text_of(const std::vector<Json>& events, int choice = 0);

/// Models of a server that has one alone.
std::vector<serve::ServedModel> only(serve::ServedModel model);
serve::ServedModel served(const std::string& fixture);
/// A decoder of characters.
serve::ServedModel shakespeare();
/// A model for chats, with a template: each message on a line of its own, `role: content`. The template goes
/// on with `more`. `special` are special tokens.
serve::ServedModel chatting(const std::string& more = "", const std::vector<std::string>& special = {});

}  // namespace heed::serve_test
