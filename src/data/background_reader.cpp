#include "heed/data/background_reader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace heed {

struct BackgroundReader::State {
  State(std::function<Batch()> function, std::size_t capacity) : make(std::move(function)), limit(capacity) {}

  void run() {
    try {
      for (;;) {
        Batch batch = make();
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stopping || ready.size() < limit; });
        if (stopping) return;
        ready.push_back(std::move(batch));
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
    }
  }

  const std::function<Batch()> make;
  const std::size_t limit;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Batch> ready;
  std::exception_ptr failure;
  bool stopping = false;
  std::thread worker;
};

BackgroundReader::BackgroundReader(std::function<Batch()> make, std::size_t capacity)
    : state_(std::make_unique<State>(std::move(make), capacity)) {
  if (capacity == 0) throw Error("background reader: expected a capacity of at least 1, got 0");
  state_->worker = std::thread([state = state_.get()] { state->run(); });
}

BackgroundReader::BackgroundReader(Batcher batcher, std::size_t capacity)
    : BackgroundReader([source = std::move(batcher)]() mutable { return source.next(); }, capacity) {}

BackgroundReader::~BackgroundReader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->worker.join();
}

Batch BackgroundReader::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return !state_->ready.empty() || state_->failure; });
  if (state_->ready.empty()) std::rethrow_exception(state_->failure);
  Batch batch = std::move(state_->ready.front());
  state_->ready.pop_front();
  state_->changed.notify_all();
  return batch;
}

}  // namespace heed
