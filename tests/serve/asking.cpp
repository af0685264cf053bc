#include "serve/asking.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "reference/temporary_folder.h"

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

Asking::Asking(std::vector<serve::ServedModel> models, server::AccessOptions access,
               serve::SchedulerLimits limits, double request_seconds)
    : server_(services_of(std::move(models), limits,
                          [this](const std::string& line) {
                            const std::lock_guard lock(mutex_);
                            log_.push_back(line);
                          }),
              std::move(access), request_seconds) {}

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
  Answer answer{response.status, response.body, {}, response.headers};
  if (response.type.starts_with("application/json") && !response.body.empty())
    answer.json = parse_json(response.body, "answer");
  return answer;
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
