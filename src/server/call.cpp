// Answers, events, and the line of the log.
#include "server/call.h"

#include <algorithm>
#include <ctime>

#include "core/pause_point.h"
#include "core/strings.h"
#include "server/access.h"
#include "server/compression.h"

namespace heed::server {
namespace {

constexpr std::size_t kShortText = 1024, kLongText = std::size_t{1} << 17;  // bytes; 2 ms of a processor

bool is_compressible(const HttpResponse& response) {
  const bool is_text = response.type.starts_with("application/json") || response.type.starts_with("text/");
  return is_text && response.body.size() >= kShortText;
}

void add_vary(HttpResponse& response) {
  for (auto& [name, value] : response.headers) {
    if (name != "Vary") continue;
    value += ", Accept-Encoding";
    return;
  }
  response.headers.emplace_back("Vary", "Accept-Encoding");
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Call::Call(HttpRequest request, std::shared_ptr<Reply> reply, std::string route, ErrorForm form,
           std::shared_ptr<Registry> registry)
    : request_(std::move(request)),
      reply_(std::move(reply)),
      route_(std::move(route)),
      form_(form),
      registry_(std::move(registry)) {
  record.id = id_of(request_);
  headers.emplace_back("X-Request-Id", record.id);
}

Call::~Call() {
  if (!closed_) fail(ApiError(ErrorCode::computation, "the request ended without an answer"));
  give_memory_back(request_.body.size() + answered_bytes_);
}

void Call::drop_body() {
  const std::size_t bytes = request_.body.size();
  std::string().swap(request_.body);
  give_memory_back(bytes);
}

void Call::answer(HttpResponse response) {
  if (closed_) return;
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  answered_bytes_ = response.body.size();
  const bool is_packed = later && is_compressible(response);
  if (is_packed) add_vary(response);
  close(response.status);
  if (is_packed && answer_compressed(response)) return;
  reply_->answer(std::move(response));
}

// On another thread, as it may take long. Returns false, with the response as it was, where it is not to be.
bool Call::answer_compressed(HttpResponse& response) {
  if (request_.method == "HEAD" || !accepts_gzip(request_.accept_encoding)) return false;
  const auto held = std::make_shared<HttpResponse>(std::move(response));
  const bool is_long = held->body.size() > kLongText;
  const bool accepted = later(
      [held, reply = reply_] {
        const std::size_t bytes = held->body.size();
        const PauseScope check([&] {
          if (reply->stop()) throw Canceled();
        });
        try {
          held->body = gzipped(held->body);
          held->headers.emplace_back("Content-Encoding", "gzip");
        } catch (const std::exception&) {  // it goes as it is, if anybody waits
        }
        reply->answer(std::move(*held));
        give_memory_back(bytes);
      },
      is_long);
  if (!accepted) response = std::move(*held);
  return accepted;
}

void Call::answer(const Json& body) { answer(HttpResponse{200, json_text(body)}); }

void Call::fail(const ApiError& error) {
  if (closed_) return;
  record.error = name_of(error.code());
  if (!events_) return answer(error_answer(form_, error));
  if (failed_event) {
    named_event(failed_event(error));
  } else {
    event(error_json(form_, error));
  }
  close(status_of(form_, error.code()));
  reply_->end();
}

ApiError Call::canceled() const {
  return reply_->has_left()
             ? ApiError(ErrorCode::invalid, "canceled: the client closed its end of the connection")
             : ApiError(ErrorCode::stopping, "canceled: the server stops");
}

void Call::begin_events() {
  events_ = true;
  reply_->begin({200, "", std::string(kEventsType) + "; charset=utf-8", headers}, ":\n\n");
}

void Call::event(const Json& data) { reply_->write("data: " + json_text(data) + "\n\n"); }

void Call::named_event(const Json& data) {
  reply_->write("event: " + data["type"].get<std::string>() + "\ndata: " + json_text(data) + "\n\n");
}

void Call::end_events() {
  reply_->write("data: [DONE]\n\n");
  end_named_events();
}

void Call::end_named_events() {
  close(200);
  reply_->end();
}

// Before the end of the answer, so that who has it finds it counted.
void Call::close(int status) {
  closed_ = true;
  if (reply_->has_left()) status = 499;  // as proxies log a client that has gone
  note_answer(*registry_, request_, route_, status, seconds_since(begin_), record);
  if (ended) ended(record);
}

std::string id_of(const HttpRequest& request) {
  constexpr std::size_t kLongest = 128;
  const bool good = !request.id.empty() && request.id.size() <= kLongest &&
                    std::all_of(request.id.begin(), request.id.end(), [](char c) {
                      return is_ascii_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == ':';
                    });
  return good ? request.id : random_token();
}

void note_answer(Registry& registry, const HttpRequest& request, const std::string& route, int status,
                 double seconds, const AccessRecord& record) {
  registry.metrics.count_request(route, record.model, status, seconds);
  if (!record.key.empty())
    registry.metrics.count_key(record.key, status, record.prompt_tokens + record.completion_tokens);
  if (!registry.log) return;
  Json line = {{"id", record.id},          {"client", request.client},
               {"method", request.method}, {"path", path_of(request.target)},
               {"status", status},         {"seconds", seconds}};
  if (!record.key.empty()) line["key"] = record.key;
  if (!record.error.empty()) line["error"] = record.error;
  if (!record.model.empty()) line["model"] = record.model;
  if (record.prompt_tokens > 0) {
    line["queue_seconds"] = record.queue_seconds;
    line["prompt_tokens"] = record.prompt_tokens;
    line["completion_tokens"] = record.completion_tokens;
    line["cached_tokens"] = record.cached_tokens;
  }
  log_event(registry, std::move(line));
}

void log_event(const Registry& registry, Json fields) {
  if (!registry.log) return;
  char time[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &parts));
  Json line = {{"time", time}};
  line.update(fields);
  registry.log(json_text(line));
}

}  // namespace heed::server
