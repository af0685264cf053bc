#include "serve/asking.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "reference/temporary_folder.h"

namespace heed::serve_test {

using server::HttpRequest;
using server::HttpResponse;

void Received::note(std::string_view part, bool last) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(ended_) << "an answer after its end";
  response_.body += part;
  ended_ = last;
  changed_.notify_all();
}

void Received::answer(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    response_ = response;
    response_.body.clear();
  }
  note(response.body, true);
}

void Received::begin(HttpResponse response, std::string ping) {
  EXPECT_EQ(ping, ":\n\n");
  const std::lock_guard lock(mutex_);
  response_ = std::move(response);
}

void Received::write(std::string_view part) { note(part, false); }
void Received::end() { note("", true); }

const HttpResponse& Received::response() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return ended_; })) << "no answer";
  return response_;
}

void Received::await_bytes(std::size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                [&] { return ended_ || response_.body.size() >= count; }));
}

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
  services.models = std::move(models);
  services.limits = limits;
  services.book->log = std::move(log);
  return services;
}

}  // namespace

Asking::Asking(std::vector<serve::ServedModel> models, serve::AccessOptions access,
               serve::SchedulerLimits limits)
    : application_(services_of(std::move(models), limits,
                               [this](const std::string& line) {
                                 const std::lock_guard lock(mutex_);
                                 log_.push_back(line);
                               }),
                   std::move(access)) {}

Asking::~Asking() {
  for (const auto& received : begun_) received->leave();
}

std::shared_ptr<Received> Asking::begin(const HttpRequest& request) {
  auto received = std::make_shared<Received>();
  begun_.push_back(received);
  application_.handle(request, received);
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

serve::ServedModel served(const std::string& fixture) {
  const std::filesystem::path directory = std::filesystem::path(HEED_FIXTURES) / fixture;
  return serve::load_served(directory.filename().string(), {directory});
}

serve::ServedModel shakespeare() { return served("../../models/shakespeare"); }

serve::ServedModel chatting(const std::string& more) {
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
  for (const auto& [rare, other] : {std::pair("$", "{"),
                                    {"&", "}"},
                                    {"3", "\\\""},
                                    {"!", "_"},
                                    {"Z", "<"},
                                    {"X", ">"},
                                    {"Q", "/"},
                                    {"V", "["},
                                    {"U", "]"},
                                    {"Y", "[TOOL_CALLS]"}}) {
    const std::string key = std::string("\"") + rare + "\": ";
    tokenizer.replace(tokenizer.find(key), key.size(), std::string("\"") + other + "\": ");
  }
  std::ofstream(folder.path() / "tokenizer.json") << tokenizer;
  return serve::load_served("chatting", {folder.path()});
}

}  // namespace heed::serve_test
