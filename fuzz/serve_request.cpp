// What a client of heed serve sends: a line with method and path, then a body. Each is answered, wrong ones
// with one short line.
#include <cstdlib>
#include <string>
#include <string_view>

#include "reader.h"
#include "serve/model_server.h"

namespace {

/// The answer of a server without models: bodies are read and checked as far as the choice of a model.
class Answered : public heed::server::Reply {
 public:
  void answer(heed::server::HttpResponse response) override {
    if (response.status >= 400 && response.body.size() > 2000) ::abort();
    end();
  }
  void begin(heed::server::HttpResponse, std::string) override {}
  void write(std::string_view) override {}
  void end() override {
    is_answered = true;
    is_answered.notify_one();
  }
  const std::atomic<bool>& stop() const override { return stopped; }
  bool has_left() const override { return false; }
  std::atomic<bool> stopped{false}, is_answered{false};
};

// The fields of each route, as it reads them.
void read_fields(const heed::server::Application& application, std::string_view body) {
  using heed::server::ApiError;
  try {
    const heed::Json json = heed::server::parse_body(body);
    const heed::server::RequestObject object(json);
    for (const heed::server::Route& route : application.routes()) {
      if (!route.walk) continue;
      try {
        heed::server::Fields fields(object, false);
        route.walk(fields);
        fields.require_known();
      } catch (const ApiError& error) {
        if (std::string_view(error.what()).find('\n') != std::string_view::npos) ::abort();
      }
    }
  } catch (const ApiError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static heed::serve::ModelServer server{heed::serve::Services{}};
  static heed::server::Application& application = server.application();
  const std::string_view text = heed::fuzz::text_of(data, size);
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view body = text.substr(std::min(text.size(), line.size() + 1));
  heed::server::HttpRequest request;
  request.method = line.substr(0, line.find(' '));
  request.target = line.substr(std::min(line.size(), request.method.size() + 1));
  request.body = body;
  if (body.starts_with("--"))  // a form: its first line has the boundary
    request.content_type = "multipart/form-data; boundary=\"" +
                           std::string(body.substr(2, std::min(body.find('\r'), body.size()) - 2)) + "\"";
  const auto answered = std::make_shared<Answered>();
  application.handle(std::move(request), answered);
  answered->is_answered.wait(false);
  read_fields(application, body);
  return 0;
}
