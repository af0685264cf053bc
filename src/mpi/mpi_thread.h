// MpiThread: the one thread of a process that calls MPI. Operations run on it one after the other, so that
// they go on while the process computes, and so that MPI needs no support for threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "heed/distributed/communicator.h"

namespace heed::mpi {

class MpiThread {
 public:
  /// Starts the thread, which runs `begin` first and, unless an operation failed, `end` last. Throws Error if
  /// `begin` does.
  MpiThread(std::function<void()> begin, std::function<void()> end);
  ~MpiThread();
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  /// Runs `operation` after those before it. Once one has failed, all later ones fail with its error.
  std::unique_ptr<PendingOperation> start(std::function<void()> operation, std::shared_ptr<const void> owner);

 private:
  struct Job;
  class Pending;
  void loop(const std::function<void()>& begin, const std::function<void()>& end);
  void run(Job& job);
  void stop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool ending_ = false;
  std::string failure_;  // of the first operation that failed
  std::thread thread_;
};

}  // namespace heed::mpi
