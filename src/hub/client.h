// A conversation with the hub: redirects, the token, repetitions, and what its answers mean.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "hub/http.h"

namespace heed::hub {

/// What several connections of one pull share.
struct Conversation {
  const Settings& settings;
  StopSignal stop;
  std::function<void(const std::string&)> on_message;  // may be called by several threads at once
  std::atomic<bool> reached{false};                    // whether the hub has answered anything yet
};

/// Repeats what failed for the moment: up to five times without progress, each time after twice the delay, or
/// after the time the server asks for.
class Retries {
 public:
  explicit Retries(Conversation& conversation) : conversation_(conversation) {}
  /// Waits, or throws the error where another attempt does not help.
  void after(const ConnectionError& error);
  /// Waits and returns true for an answer that another attempt may change (408, 429, 5xx).
  bool after(const Response& response);
  /// Something arrived: counting starts again.
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

  /// Sends once, following redirects (at most ten); the token goes to the hub's own scheme, host and port
  /// only. With `within_hub`, a redirect to anywhere else is returned as the answer.
  Response send(Request request, bool within_hub);
  /// The same, repeated as Retries says.
  Response ask(const Request& request, bool within_hub);

 private:
  Conversation& conversation_;
  Http http_;
};

/// Throws what an answer other than success means for `repository` at `revision` (and `file`, if any), with
/// what to do about it.
[[noreturn]] void throw_refusal(const Response& response, const Settings& settings,
                                const std::string& repository, const std::string& revision,
                                const std::string& file);

/// A text from a server, for messages: one line, cut where it is long.
std::string quoted_text(std::string text);

}  // namespace heed::hub
