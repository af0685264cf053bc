// A long call that is computed piece by piece, between the work of others.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace heed::serve {

/// A function on a thread of its own, which runs only while resume() waits for it.
/// Threads: one at a time.
class PausedCall {
 public:
  using Pause = std::function<void()>;
  /// `call` gets what gives the turn back. That one returns with the next turn; it throws Canceled once this
  /// object ends, which must leave `call`.
  explicit PausedCall(std::function<void(const Pause& pause)> call) : call_(std::move(call)) {}
  ~PausedCall();
  PausedCall(const PausedCall&) = delete;
  PausedCall& operator=(const PausedCall&) = delete;

  /// Goes on with the call until it pauses; false: it has returned. Throws what it throws.
  bool resume();

 private:
  void run();
  void pause();

  const std::function<void(const Pause&)> call_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool has_turn_ = false, returned_ = false, ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // from the first turn on
};

}  // namespace heed::serve
