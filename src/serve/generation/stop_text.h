// The text of a generation as it is sent: up to the first stop string, of which nothing is sent.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::serve {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// Takes more text, and returns what can be sent: what might begin a stop string is held back.
  std::string push(std::string_view text);
  /// Returns what is held back, as no more text comes.
  std::string finish() { return std::exchange(held_, {}); }
  /// Whether a stop string was found. Nothing is returned after that.
  bool is_stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;  // none is empty
  std::string held_;
  bool stopped_ = false;
};

}  // namespace heed::serve
