// Runs what reads hostile input on a stack of 512 KiB, as under `ulimit -s 512`: whatever it recurses into
// has to fit. Where the compiler does not optimize, or adds checks, frames are larger, and so is the stack.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <stdexcept>

namespace heed {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEED_LARGE_FRAMES 1
#endif
#endif
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(HEED_LARGE_FRAMES)
inline constexpr std::size_t kSmallStack = std::size_t{8} << 20;
#else
inline constexpr std::size_t kSmallStack = std::size_t{512} << 10;
#endif

/// Runs `action` to its end, on a thread of its own, and throws what it throws.
template <class Action>
void on_small_stack(const Action& action) {
  struct Run {
    const Action* action;
    std::exception_ptr thrown;
  } run{&action, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSmallStack);
  pthread_t thread;
  const auto body = [](void* given) -> void* {
    auto& one = *static_cast<Run*>(given);
    try {
      (*one.action)();
    } catch (...) {
      one.thrown = std::current_exception();
    }
    return nullptr;
  };
  const int error = pthread_create(&thread, &attributes, body, &run);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("a thread with a small stack cannot be made");
  pthread_join(thread, nullptr);
  if (run.thrown) std::rethrow_exception(run.thrown);
}

}  // namespace heed
