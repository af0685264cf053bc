// Long computations that give way to others: where they may pause, without handing a function through every
// call.
#pragma once

#include <functional>
#include <utility>

namespace heed {

/// While it exists, each pause_point() on this thread calls `at_pause`, after those of the scopes around it.
/// It may hold the thread up, and may throw Canceled.
class PauseScope {
 public:
  explicit PauseScope(std::function<void()> at_pause) : at_pause_(std::move(at_pause)), around_(current_) {
    current_ = this;
  }
  ~PauseScope() { current_ = around_; }
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  friend void pause_point();
  void call() const {
    if (around_ != nullptr) around_->call();
    at_pause_();
  }

  static inline thread_local const PauseScope* current_ = nullptr;
  const std::function<void()> at_pause_;
  const PauseScope* const around_;
};

/// A loop that may take long calls it every few milliseconds, where it holds no lock.
inline void pause_point() {
  if (PauseScope::current_ != nullptr) PauseScope::current_->call();
}

}  // namespace heed
