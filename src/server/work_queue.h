// A thread that does one thing after the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
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

}  // namespace heed::server
