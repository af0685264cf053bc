// Locks that a forked child finds free. A child has only the thread that forked: a lock that another thread
// held at that moment would never be released in it.
#pragma once

#include <mutex>

namespace heed {

/// A mutex for std::lock_guard. fork() waits until no thread holds or waits for one; threads that hold none
/// wait for it. Every lock of the library that a child may need is one. A thread that holds one must not
/// fork.
class ForkSafeMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace heed
