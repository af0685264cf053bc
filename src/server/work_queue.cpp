// The queue of a thread.
#include "server/work_queue.h"

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

}  // namespace heed::server
