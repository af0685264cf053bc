// Threads that work for others: one that does one thing after the other, and one that runs a long call piece
// by piece.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace heed::server {

/// Threads: post() from any.
class WorkQueue {
 public:
  /// `waiting`: how many things may wait.
  explicit WorkQueue(std::size_t waiting);
  /// Does what waits, and ends.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Returns false if too many wait.
  bool post(std::function<void()> work);

 private:
  void run();

  const std::size_t waiting_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> works_;
  bool ended_ = false;
  std::thread thread_;
};

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

}  // namespace heed::server
