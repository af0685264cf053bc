// The queue of a thread, and the turn of a call, which goes to its thread and back.
#include "server/worker_threads.h"

#include <utility>

#include "heed/error.h"

namespace heed::server {

WorkQueue::WorkQueue(std::size_t waiting) : waiting_(waiting), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool WorkQueue::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (works_.size() >= waiting_) return false;
    works_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkQueue::run() {
  while (true) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ended_ || !works_.empty(); });
    if (works_.empty()) return;
    const std::function<void()> work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    work();
  }
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
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  changed_.wait(lock, [this] { return !has_turn_; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  return !returned_;
}

void PausedCall::run() {
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
