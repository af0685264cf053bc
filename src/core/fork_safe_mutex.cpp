// The handlers of fork(): it waits for the holders of locks, and keeps new ones out.
#include "core/fork_safe_mutex.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/thread_pool.h"

namespace heed {
namespace {

std::atomic<int> holders{0};  // threads
std::atomic<bool> forking{false};
std::mutex one_fork;        // at a time
thread_local int held = 0;  // by this thread

void wait_for_holders() {
  constexpr std::chrono::microseconds kPatience{2000};
  one_fork.lock();
  for (;;) {
    forking = true;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    do {
      if (holders == 0) return;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    // A holder may wait for a thread of the pool that needs a lock itself, and so waits for the fork: let it
    // go on.
    forking = false;
    std::this_thread::sleep_for(kPatience / 10);
  }
}

void open_again() {
  forking = false;
  one_fork.unlock();
}

void begin_in_child() {
  holders = 0;  // threads that do not exist here may have counted themselves before they saw the fork
  open_again();
  detail::forget_threads();
}

[[maybe_unused]] const int registered = pthread_atfork(wait_for_holders, open_again, begin_in_child);

}  // namespace

void ForkSafeMutex::lock() {
  while (held == 0) {
    ++holders;
    if (!forking) break;
    --holders;
    while (forking) std::this_thread::yield();
  }
  ++held;
  mutex_.lock();
}

void ForkSafeMutex::unlock() {
  mutex_.unlock();
  if (--held == 0) --holders;
}

}  // namespace heed
