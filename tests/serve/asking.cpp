#include "serve/asking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/strings.h"
#include "reference/temporary_folder.h"
#include "server/access.h"

namespace heed::serve_test {

using server::HttpRequest;
using server::HttpResponse;

std::string Answer::header(const std::string& name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::vector<Json> Answer::events() const {
  std::vector<Json> events;
  std::istringstream lines(text);
  bool done = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    EXPECT_FALSE(done) << line;
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    done = line == "data: [DONE]";
    if (!done) events.push_back(parse_json(line.substr(6), "event"));
  }
  EXPECT_TRUE(done);
  return events;
}

HttpRequest request_of(const std::string& method, const std::string& target, const std::string& body) {
  HttpRequest request{method, target, "127.0.0.1:8080", {}, {}, "127.0.0.1", body};
  return request;
}

namespace {

bool has_type(const Json& value, const std::string& type) {
  return type == value.type_name() || (value.is_number() && type == "number") ||
         (value.is_number_integer() && type == "integer");
}

serve::Services services_of(std::vector<serve::ServedModel> models, const serve::SchedulerLimits& limits,
                            std::function<void(const std::string&)> log) {
  serve::Services services;
  for (serve::ServedModel& model : models)
    services.models.push_back(std::make_shared<serve::ServedModel>(std::move(model)));
  services.limits = limits;
  services.registry->log = std::move(log);
  return services;
}

}  // namespace

std::string fault_of(const Json& value, const Json& schema, const Json& document, const std::string& place) {
  if (const auto other = schema.find("$ref"); other != schema.end())
    return fault_of(value, document.at(Json::json_pointer(other->get<std::string>().substr(1))), document,
                    place);
  if (const auto several = schema.find("anyOf"); several != schema.end()) {
    std::string faults;
    for (const Json& one : *several) {
      const std::string fault = fault_of(value, one, document, place);
      if (fault.empty()) return {};
      faults += fault + "; ";
    }
    return faults;
  }
  if (const auto words = schema.find("enum"); words != schema.end())
    return std::find(words->begin(), words->end(), value) != words->end() ? "" : place + ": another word";
  const auto type = schema.find("type");
  if (type == schema.end()) return {};
  const Json types = type->is_array() ? *type : Json::array({*type});
  if (std::none_of(types.begin(), types.end(), [&](const Json& one) { return has_type(value, one); }))
    return place + ": another type";
  if (value.is_array()) {
    for (const Json& one : value)
      if (const std::string fault = fault_of(one, schema["items"], document, place + "[]"); !fault.empty())
        return fault;
  }
  if (!value.is_object()) return {};
  for (const Json& key : schema["required"])
    if (!value.contains(key)) return place + ": no " + key.get<std::string>();
  for (const auto& [key, member] : value.items()) {
    const auto known = schema["properties"].find(key);
    if (known == schema["properties"].end() && !schema.contains("additionalProperties"))
      return place + ": also " + key;
    const Json& own = known != schema["properties"].end() ? *known : schema["additionalProperties"];
    if (const std::string fault = fault_of(member, own, document, place + "." + key); !fault.empty())
      return fault;
  }
  return {};
}

Asking::Asking(std::vector<serve::ServedModel> models, server::AccessOptions access,
               serve::SchedulerLimits limits, double request_seconds)
    : server_(services_of(std::move(models), limits,
                          [this](const std::string& line) {
                            const std::lock_guard lock(mutex_);
                            log_.push_back(line);
                          }),
              std::move(access), request_seconds),
      document_(server::openapi(server_.application().routes(), "a test")) {}

Asking::~Asking() {
  for (const auto& received : begun_) received->leave();
}

std::shared_ptr<Received> Asking::begin(const HttpRequest& request) {
  auto received = std::make_shared<Received>();
  begun_.push_back(received);
  server_.application().handle(request, received);
  return received;
}

Answer Asking::ask(const HttpRequest& request) {
  const HttpResponse response = begin(request)->response();
  check(request, response);
  Answer answer{response.status, response.body, {}, response.headers};
  if (response.type.starts_with("application/json") && !response.body.empty())
    answer.json = parse_json(response.body, "answer");
  return answer;
}

void Asking::check(const HttpRequest& request, const HttpResponse& response) {
  const server::Route* route =
      server::find_route(server_.application().routes(), request.method, server::path_of(request.target));
  if (route == nullptr) return;
  SCOPED_TRACE(request.target + " " + request.body.substr(0, 200));
  const Json& responses = document_["paths"][route->paths.front()][ascii_lower(route->method)]["responses"];
  const std::string status = std::to_string(response.status);
  const Json& content = responses[responses.contains(status) ? status : "default"]["content"];
  const std::string type = response.type.substr(0, response.type.find(';'));
  ASSERT_TRUE(content.contains(type)) << type << ": " << response.status;
  const Json& schema = content[type]["schema"];
  if (type == "application/json" && !response.body.empty()) {
    EXPECT_EQ(fault_of(parse_json(response.body, "answer"), schema, document_, ""), "")
        << response.body.substr(0, 500);
  }
  if (type != server::kEventsType) return;
  std::istringstream lines(response.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    EXPECT_EQ(fault_of(parse_json(line.substr(6), "event"), content[type]["x-event"], document_, ""), "")
        << line;
  }
}

std::vector<std::string> Asking::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

std::string text_of(const std::vector<Json>& events, int choice) {
  std::string text;
  for (const Json& event : events) {
    for (const Json& one : event["choices"]) {
      if (one["index"] != choice) continue;
      if (one.contains("text")) text += one["text"];
      if (one.contains("delta") && one["delta"].contains("content") && !one["delta"]["content"].is_null())
        text += one["delta"]["content"];
    }
  }
  return text;
}

std::vector<serve::ServedModel> only(serve::ServedModel model) {
  std::vector<serve::ServedModel> models;
  models.push_back(std::move(model));
  return models;
}

serve::ServedModel served(const std::string& fixture) {
  const std::filesystem::path directory = std::filesystem::path(HEED_FIXTURES) / fixture;
  return serve::serve_model(directory.filename().string(), load(directory.string()));
}

serve::ServedModel shakespeare() { return served("../../models/shakespeare"); }

serve::ServedModel chatting(const std::string& more, const std::vector<std::string>& special) {
  const TemporaryFolder folder;
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "../../models/shakespeare", folder.path(),
                        std::filesystem::copy_options::recursive);
  std::ofstream(folder.path() / "chat_template.jinja")
      << "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
         "{% if add_generation_prompt %}{{ reply or 'assistant' }}: {% endif %}"
      << more;
  // Characters of JSON and of marks in the place of rare ones.
  std::ifstream in(folder.path() / "tokenizer.json");
  std::string tokenizer{std::istreambuf_iterator<char>(in), {}};
  const auto replace = [&](const std::string& rare, const std::string& other) {
    const std::string key = "\"" + rare + "\": ";
    tokenizer.replace(tokenizer.find(key), key.size(), "\"" + other + "\": ");
  };
  for (const auto& [rare, other] : {std::pair("$", "{"),
                                    {"&", "}"},
                                    {"3", "\\\""},
                                    {"!", "_"},
                                    {"Z", "<"},
                                    {"X", ">"},
                                    {"Q", "/"},
                                    {"V", "["},
                                    {"U", "]"},
                                    {"Y", "[TOOL_CALLS]"},
                                    {"J", "="},
                                    {"D", "("},
                                    {"F", ")"},
                                    {"L", "`"},
                                    {";", "<think>"},
                                    {"'", "</think>"}})
    replace(rare, other);
  const Json vocabulary = parse_json(tokenizer, "tokenizer")["model"]["vocab"];
  std::string added;
  for (std::size_t i = 0; i < special.size(); ++i) {
    const std::string rare(1, "ABCEGHIKM"[i]);
    replace(vocabulary.contains(special[i]) ? special[i] : rare, special[i]);
    const Json& id = vocabulary[vocabulary.contains(special[i]) ? special[i] : rare];
    added += json_text(Json{{"id", id},
                            {"content", special[i]},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}}) +
             ",";
  }
  const std::string list = "\"added_tokens\": [";
  tokenizer.insert(tokenizer.find(list) + list.size(), added);
  std::ofstream(folder.path() / "tokenizer.json") << tokenizer;
  return serve::serve_model("chatting", load(folder.path().string()));
}

}  // namespace heed::serve_test
