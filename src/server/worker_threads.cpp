// The queue of a thread, and the turn of a call, which goes to its thread and back.
#include "server/worker_threads.h"

#include <utility>

#include "core/pause_point.h"
#include "heed/error.h"

namespace heed::server {

using Clock = std::chrono::steady_clock;

WorkQueue::WorkQueue(std::size_t waiting) : waiting_(waiting) {
  threads_.emplace_back([this] { run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  // Who works may start another thread.
  for (std::size_t i = 0;; ++i) {
    std::unique_lock lock(mutex_);
    if (i == threads_.size()) return;
    std::thread thread = std::move(threads_[i]);
    lock.unlock();
    thread.join();
  }
}

bool WorkQueue::post(std::function<void()> work, bool is_long) {
  {
    const std::lock_guard lock(mutex_);
    if (short_.size() + long_.size() >= waiting_) return false;
    (is_long ? long_ : short_).push_back(std::move(work));
    if (!busy_) add_thread_for_next();  // between two turns of those that are paused
  }
  wake_.notify_all();
  return true;
}

std::deque<std::function<void()>>* WorkQueue::next() {
  if (!short_.empty() && paused_.size() < kMostPaused) return &short_;
  if (!long_.empty() && paused_.size() < kMostLong) return &long_;
  return nullptr;
}

void WorkQueue::add_thread_for_next() {
  if (idle_ == 0 && next() != nullptr) threads_.emplace_back([this] { run(); });
}

void WorkQueue::run() {
  const PauseScope scope([this] {
    if (Clock::now() >= due_) give_way();
  });
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return is_idle() ? ended_ : !busy_ && next() != nullptr; });
    --idle_;
    if (is_idle()) return;
    {
      auto& works = *next();
      const std::function<void()> work = std::move(works.front());
      works.pop_front();
      busy_ = true;
      due_ = Clock::now() + kSlice;
      lock.unlock();
      work();
    }
    lock.lock();
    busy_ = false;
    wake_.notify_all();
  }
}

// What may begin goes first, as it may be short.
void WorkQueue::give_way() {
  std::unique_lock lock(mutex_);
  if (!is_idle() || !paused_.empty()) {
    const std::uint64_t own = number_++;
    paused_.push_back(own);
    add_thread_for_next();
    busy_ = false;
    wake_.notify_all();
    wake_.wait(lock, [&] { return !busy_ && next() == nullptr && paused_.front() == own; });
    paused_.pop_front();
    busy_ = true;
  }
  due_ = Clock::now() + kSlice;
}

PausedCall::~PausedCall() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = has_turn_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool PausedCall::resume() {
  std::unique_lock lock(mutex_);
  if (returned_) return false;
  has_turn_ = true;
  due_ = Clock::now() + kSlice;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  changed_.wait(lock, [this] { return !has_turn_; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return !returned_;
}

void PausedCall::run() {
  const PauseScope scope([this] {
    if (Clock::now() >= due_) pause();
  });
  std::exception_ptr error;
  try {
    call_([this] { pause(); });
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  returned_ = true;
  has_turn_ = false;
  changed_.notify_all();
}

void PausedCall::pause() {
  std::unique_lock lock(mutex_);
  has_turn_ = false;
  changed_.notify_all();
  changed_.wait(lock, [this] { return has_turn_; });
  if (ended_) throw Canceled();
}

}  // namespace heed::server
