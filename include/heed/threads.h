// The one thread pool of the process (OpenMP's). Nothing else in heed starts compute threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace heed {

/// Number of compute threads; starts as the number of processors available to the process.
int threads();
void set_threads(int count);

/// A non-owning reference to a callable; valid only during the call it is passed to.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class Fn, class = std::enable_if_t<!std::is_same_v<std::decay_t<Fn>, FunctionRef>>>
  FunctionRef(Fn&& fn)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::add_pointer_t<Fn>>(object))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Calls `body(begin, end)` on disjoint ranges that cover [0, count), in parallel. A range holds at least
/// `grain` items, so small work stays on the calling thread; calls inside a parallel body run serially. The
/// split depends on the number of threads: a reduction that must not depend on it needs fixed chunks.
void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

/// How many ranges parallel_for cuts such a call into.
std::int64_t range_count(std::int64_t count, std::int64_t grain);
/// parallel_for whose body also learns which of the range_count(count, grain) ranges it works on, so that
/// each may have room of its own that the caller made beforehand.
void parallel_for_ranges(std::int64_t count, std::int64_t grain,
                         FunctionRef<void(std::int64_t range, std::int64_t begin, std::int64_t end)> body);

}  // namespace heed
