// Redirects and retries, and the errors of the hub as messages.
#include "hub/client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "core/utf8.h"
#include "heed/error.h"

namespace heed::hub {
namespace {

constexpr int kMostAttempts = 5;
constexpr int kMostRedirects = 10;
constexpr double kLongestWait = 300;  // the hub counts requests in windows of five minutes

double number_in(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Returns the delay in seconds that the server asks for: that of `Retry-After: 30`, or of `RateLimit:
// "api";r=0;t=55` the time until the next window. Returns -1 if there is neither.
double asked_delay(const Response& response) {
  const double seconds = number_in(response.header("retry-after"));
  if (seconds >= 0) return seconds;
  const std::string limit = response.header("ratelimit");
  const std::size_t at = limit.find(";t=");
  return at == std::string::npos ? -1 : number_in(limit.substr(at + 3));
}

}  // namespace

bool Retries::wait(double asked) {
  if (++attempts_ > kMostAttempts || asked > kLongestWait) return false;
  const double own = conversation_.settings.first_delay * static_cast<double>(1 << (attempts_ - 1));
  const double seconds = asked >= 0 ? asked : own;
  constexpr double kWorthAMessage = 5;
  if (seconds > kWorthAMessage && conversation_.on_message) {
    conversation_.on_message(
        (asked >= 0 ? "the server asks to wait; trying again in " : "no answer; trying again in ") +
        std::to_string(static_cast<int>(seconds)) + " s");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (conversation_.stop.is_set()) throw Canceled();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

void Retries::after(const ConnectionError& error) {
  // Without a network, retrying is pointless; during a long download, the network may come back.
  const bool hopeless = !error.transient || (error.unreached && !conversation_.reached);
  if (hopeless || !wait(-1)) throw error;
}

bool Retries::after(const Response& response) {
  const bool transient = response.status == 408 || response.status == 429 || response.status >= 500;
  return transient && wait(asked_delay(response));
}

Response Client::send(Request request, bool within_hub) {
  const std::string hub = origin_of(settings().endpoint);
  const std::vector<std::string> headers = request.headers;
  for (int hops = 0;; ++hops) {
    request.headers = headers;
    if (!settings().token.empty() && origin_of(request.url) == hub)
      request.headers.push_back("Authorization: Bearer " + settings().token);
    Response response = http_.send(request);
    conversation_.reached = true;
    if (!response.is_redirect()) return response;
    if (within_hub && origin_of(response.redirect) != hub) return response;
    if (hops == kMostRedirects) {
      throw Error(
          hub +
          ": expected a file, got more than ten redirects in a row (is HF_ENDPOINT a Hugging Face hub?)");
    }
    request.url = response.redirect;
  }
}

Response Client::ask(const Request& request, bool within_hub) {
  for (Retries retries(conversation_);;) {
    try {
      Response response = send(request, within_hub);
      if (!retries.after(response)) return response;
    } catch (const ConnectionError& error) {
      retries.after(error);
    }
  }
}

std::string quoted_text(std::string text) {
  constexpr std::size_t kLongest = 200;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && !is_utf8_start(text[end])) --end;
    text = text.substr(0, end) + "…";
  }
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

void throw_refusal(const Response& response, const Settings& settings, const std::string& repository,
                   const std::string& revision, const std::string& file) {
  const std::string code = response.header("x-error-code"), page = settings.endpoint + "/" + repository;
  const std::string message = quoted_text(response.header("x-error-message"));
  const long status = response.status;
  if (code == "GatedRepo") {
    throw Error(repository + ": gated, its terms must be accepted first (accept them at " + page +
                (settings.token.empty() ? ", then set HF_TOKEN to a token of your account)"
                                        : " with the account of your token)"));
  }
  if (status == 401 && message.find("nvalid") != std::string::npos)
    throw Error(repository +
                ": the hub refused the token (check HF_TOKEN, or the file that hf auth login writes)");
  if (code == "RevisionNotFound")
    throw Error(repository + ": revision " + revision + ": not found (" + page +
                "/tree/main lists branches and tags)");
  if (code == "EntryNotFound") throw Error(repository + ": " + file + ": not found at revision " + revision);
  if (code == "RepoNotFound" || status == 401 || status == 404) {
    throw Error(repository + ": not found at " + settings.endpoint +
                " (check the name; a private model needs " +
                (settings.token.empty() ? "HF_TOKEN)" : "a token that may read it)"));
  }
  const std::string reason = message.empty() ? "" : ": " + message;
  if (status == 403)
    throw Error(repository + ": access denied" + reason + " (check the token's permissions)");
  if (status == 429) {
    throw Error(repository + ": too many requests" + reason +
                " (try again later; requests with HF_TOKEN have a higher limit)");
  }
  if (status >= 500) {
    throw Error(origin_of(settings.endpoint) + ": the server failed with status " + std::to_string(status) +
                reason + " (try again later; what was downloaded is kept)");
  }
  throw Error(repository + (file.empty() ? "" : ": " + file) + ": expected the status 200, got " +
              std::to_string(status) + reason);
}

}  // namespace heed::hub
