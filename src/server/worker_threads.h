// Work of others on threads that take turns, so that what takes long gives way to what came later: a queue,
// and a call that runs slice by slice.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace heed::server {

/// What has worked for so long gives way at its next pause_point().
inline constexpr std::chrono::milliseconds kSlice{50};

/// Works one thing at a time, in order of arrival, short ones before long ones. One that has worked for a
/// slice waits until those that came later have had theirs; few are open at a time, as each holds memory and
/// a thread. Threads: post() from any.
class WorkQueue {
 public:
  static constexpr std::size_t kMostPaused = 64;  ///< when no other begins
  static constexpr std::size_t kMostLong = 2;     ///< when no other long one begins
  /// `waiting`: how many things may wait that have not begun.
  explicit WorkQueue(std::size_t waiting);
  /// Does what waits, and ends.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// `is_long`: it may take longer than a slice, or much memory. Returns false if too many wait.
  bool post(std::function<void()> work, bool is_long = false);

 private:
  void run();
  void give_way();
  /// The works of which the next begins; null if none may.
  std::deque<std::function<void()>>* next();
  void add_thread_for_next();  ///< if there is a next, and no thread waits for it
  bool is_idle() const { return short_.empty() && long_.empty(); }

  const std::size_t waiting_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> short_, long_;
  std::deque<std::uint64_t> paused_;           // works, in the order in which they go on
  std::uint64_t number_ = 0;                   // of a pause
  std::chrono::steady_clock::time_point due_;  // when the one that works gives way
  bool ended_ = false, busy_ = false;
  std::size_t idle_ = 0;              // threads that wait for work
  std::vector<std::thread> threads_;  // one more than works are paused, at most
};

/// A function on a thread of its own, which runs only while resume() waits for it. It pauses by itself at the
/// first pause_point() after a slice.
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
  std::chrono::steady_clock::time_point due_;  // of a pause
  std::mutex mutex_;                           // of what follows
  std::condition_variable changed_;
  bool has_turn_ = false, returned_ = false, ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // from the first turn on
};

}  // namespace heed::server
