// Which sanitizers watch the program, whether or not they watch the tests themselves.
#pragma once

extern "C" [[gnu::weak]] void __asan_init();
extern "C" [[gnu::weak]] void __tsan_init();

namespace heed {

inline bool has_address_sanitizer() { return &__asan_init != nullptr; }
inline bool has_thread_sanitizer() { return &__tsan_init != nullptr; }

}  // namespace heed
