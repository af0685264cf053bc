// Stopping calls that read or compute for long, without handing a flag through every function.
#pragma once

#include <atomic>

#include "heed/error.h"

namespace heed {

/// While it exists, throw_if_stopped() on this thread throws once `stop` is true; null: never.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* stop) : before_(current_) { current_ = stop; }
  ~StopScope() { current_ = before_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  friend void throw_if_stopped();
  static inline thread_local const std::atomic<bool>* current_ = nullptr;
  const std::atomic<bool>* before_;
};

/// Throws Canceled if the innermost StopScope of this thread is stopped. Every loop over a corpus calls it.
inline void throw_if_stopped() {
  if (StopScope::current_ != nullptr && StopScope::current_->load(std::memory_order_relaxed))
    throw Canceled();
}

}  // namespace heed
