// What a client of heed serve sends: a line with method and path, then a body. Each is answered, wrong ones
// with one short line.
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "reader.h"
#include "serve/application.h"

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

const std::set<std::string>& field_names() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const heed::serve::Route& route : heed::serve::routes()) {
      for (const heed::serve::FieldNote& field : route.fields) names.insert(field.name);
    }
    return names;
  }();
  return all;
}

// Each field in each way in which requests read it.
void read_fields(std::string_view body) {
  using heed::serve::ApiError;
  try {
    const heed::Json json = heed::serve::parse_body(body);
    const heed::serve::Fields fields(json);
    const auto read = [](auto reader) {
      try {
        reader();
      } catch (const ApiError& error) {
        if (std::string_view(error.what()).find('\n') != std::string_view::npos) ::abort();
      }
    };
    for (const std::string& field : field_names()) {
      read([&] { fields.boolean(field.c_str()); });
      read([&] { fields.number(field.c_str(), -1, 1); });
      read([&] { fields.integer(field.c_str(), 0, 10); });
      read([&] { fields.string(field.c_str()); });
      read([&] { fields.strings(field.c_str()); });
      read([&] { fields.integers(field.c_str(), 0, 10); });
      read([&] { fields.object(field.c_str()); });
      read([&] { fields.array(field.c_str()); });
    }
  } catch (const ApiError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static heed::serve::Application application(heed::serve::Services{}, heed::serve::AccessOptions{});
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
  read_fields(body);
  return 0;
}
