// The turn goes to the thread and back.
#include "serve/scheduler/paused_call.h"

#include <utility>

#include "heed/error.h"

namespace heed::serve {

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

}  // namespace heed::serve
