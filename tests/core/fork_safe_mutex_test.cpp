// Forks while other threads use the locks of the library: every child can take them.
#include "core/fork_safe_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "heed/buffer.h"
#include "heed/threads.h"
#include "reference/sanitizers.h"

namespace heed {
namespace {

/// Threads that call `work` again and again until the end of the object.
class BusyThreads {
 public:
  template <class Work>
  BusyThreads(int count, Work work) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, work] {
        while (!over_) work();
      });
    }
  }
  ~BusyThreads() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

/// The status of a child that calls `work`, ended by a signal if that takes 20 s.
template <class Work>
int status_of_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

struct Sevens : Buffer::Source {
  std::size_t bytes = 0;
  void write(std::byte* to) const override { std::memset(to, 7, bytes); }
};

std::shared_ptr<Buffer> lazy_sevens(std::size_t bytes) {
  auto source = std::make_shared<Sevens>();
  source->bytes = bytes;
  return Buffer::lazy(bytes, source);
}

TEST(ForkSafeMutex, IsFreeInAChild) {
  ForkSafeMutex mutex;
  std::atomic<int> inside = 0;
  const BusyThreads busy(3, [&] {
    const std::lock_guard lock(mutex);
    ++inside;
    std::this_thread::yield();
    --inside;
  });
  for (int round = 0; round < 100; ++round) {
    const int status = status_of_child([&] {
      const std::lock_guard lock(mutex);
      return inside == 0;  // what it guards was at rest
    });
    ASSERT_EQ(status, 0) << "child " << round;
  }
}

TEST(ForkSafeMutex, AChildHasBuffersWhileOthersTakeThem) {
  if (has_address_sanitizer())
    GTEST_SKIP() << "the address sanitizer's allocator may be locked by another thread when a child begins";
  std::vector<std::shared_ptr<Buffer>> lazy;
  for (int i = 0; i < 64; ++i) lazy.push_back(lazy_sevens(4096));
  std::atomic<std::size_t> next = 0;
  const BusyThreads busy(4, [&] {
    const std::size_t i = next++;
    Buffer::allocate(256 << i % 8);
    lazy[i % lazy.size()]->read();
    lazy_sevens(1 << 16)->data();
  });
  for (int round = 0; round < 60; ++round) {
    const int status = status_of_child([&] {
      bool right = true;
      for (const auto& buffer : lazy) right = right && buffer->data()[4095] == std::byte{7};
      std::atomic<int> sum = 0;
      parallel_for(100, 1,
                   [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
      return right && sum == 100 && status_of_child([] { return Buffer::allocate(1000) != nullptr; }) == 0;
    });
    ASSERT_EQ(status, 0) << "child " << round;
  }
}

}  // namespace
}  // namespace heed
