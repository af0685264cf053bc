// Requests to the hub: redirects, the token, retries, and errors from its answers.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "hub/http.h"

namespace heed::hub {

/// State shared by the connections of one pull.
struct Conversation {
  const Settings& settings;
  StopSignal stop;
  std::function<void(const std::string&)> on_message;  // several threads may call it at once
  std::atomic<bool> reached{false};                    // true once the hub has answered
};

/// Retries transient failures: up to five times without progress. Each delay is twice the previous one, or as
/// long as the server asks for.
class Retries {
 public:
  explicit Retries(Conversation& conversation) : conversation_(conversation) {}
  /// Waits, or throws the error if another attempt cannot help.
  void after(const ConnectionError& error);
  /// Waits and returns true for an answer that another attempt may change (408, 429, 5xx).
  bool after(const Response& response);
  /// Resets the count because data arrived.
  void progress() { attempts_ = 0; }

 private:
  bool wait(double seconds);

  Conversation& conversation_;
  int attempts_ = 0;
};

class Client {
 public:
  explicit Client(Conversation& conversation)
      : conversation_(conversation), http_(conversation.settings, conversation.stop) {}

  Conversation& conversation() { return conversation_; }
  const Settings& settings() const { return conversation_.settings; }

  /// Sends once and follows redirects (at most ten). The token is sent to the hub's own scheme, host and port
  /// only. With `within_hub`, a redirect to any other origin is returned as the answer.
  Response send(Request request, bool within_hub);
  /// The same, retried by the rules of Retries.
  Response ask(const Request& request, bool within_hub);

 private:
  Conversation& conversation_;
  Http http_;
};

/// Throws the Error for an unsuccessful answer about `repository` at `revision` (and `file`, if any), with
/// what to do about it.
[[noreturn]] void throw_refusal(const Response& response, const Settings& settings,
                                const std::string& repository, const std::string& revision,
                                const std::string& file);

/// Returns a text from a server for use in messages: as one line, shortened if it is long.
std::string quoted_text(std::string text);

}  // namespace heed::hub
