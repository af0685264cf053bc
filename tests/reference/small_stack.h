// Runs what reads hostile input on a stack of 512 KiB, as under `ulimit -s 512`: whatever it recurses into
// has to fit. Where the compiler does not optimize, or adds checks, frames are larger, and so is the stack.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <stdexcept>

#include "reference/sanitizers.h"

namespace heed {

inline std::size_t small_stack() {
#if defined(__OPTIMIZE__)
  if (!has_address_sanitizer() && !has_thread_sanitizer()) return std::size_t{512} << 10;
#endif
  return std::size_t{8} << 20;
}

/// Runs `action` to its end, on a thread of its own, and throws what it throws.
template <class Action>
void on_small_stack(const Action& action) {
  struct Run {
    const Action* action;
    std::exception_ptr thrown;
  } run{&action, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, small_stack());
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
