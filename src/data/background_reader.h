// Prepares the next batches on a separate thread while the model computes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "heed/error.h"

namespace heed {

/// Threads: one caller at a time.
template <class Batch>
class BackgroundReader {
 public:
  /// Immediately starts to call `make` on its own thread, keeping at most `capacity` (>= 1) batches in the
  /// queue.
  explicit BackgroundReader(std::function<Batch()> make, std::size_t capacity = 4)
      : make_(std::move(make)), limit_(capacity) {
    if (capacity == 0) throw Error("background reader: expected a capacity of at least 1, got 0");
    worker_ = std::thread([this] { run(); });
  }
  /// Stops the thread and discards the batches in the queue.
  ~BackgroundReader() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  BackgroundReader(const BackgroundReader&) = delete;
  BackgroundReader& operator=(const BackgroundReader&) = delete;

  /// Returns the next batch, in the order in which they were made. If making a batch threw, rethrows the
  /// exception after the batches before it.
  Batch next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }

 private:
  void run() {
    try {
      for (;;) {
        Batch batch = make_();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || ready_.size() < limit_; });
        if (stopping_) return;
        ready_.push_back(std::move(batch));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const std::function<Batch()> make_;
  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace heed
