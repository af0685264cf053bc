// The compute threads of the process: one pool, which all callers share. Nothing else in heed starts compute
// threads.
//
// A caller computes too, and free threads of the pool help it. Simultaneous callers share the pool: if
// `threads()` threads already compute, a caller works alone. The pool's threads start when they are first
// needed. They are named heed-1, heed-2, ..., block signals, spin for some 5 milliseconds without work and
// then sleep, and end with the process. A forked child starts its own threads; inside a body of parallel_for,
// a process may fork only to run another program.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "heed/export.h"

namespace HEED_API heed {

/// Number of compute threads of the process, callers included; starts as the first number in OMP_NUM_THREADS,
/// or else as the processors available to the process (its affinity, and the quota of its control groups).
int threads();
/// May be called by any thread at any time; calls that have begun keep the threads they have.
void set_threads(int count);

/// A non-owning reference to a callable, valid during the call it is passed to. Threads: as its callable.
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
/// `grain` items, so small work stays on the calling thread; calls inside a parallel body run serially. There
/// are several ranges for each thread, so that a delayed thread delays the others by at most one range. The
/// ranges depend only on count, grain and threads(): a reduction that must not depend on the number of
/// threads needs fixed chunks. When bodies throw, the exception of the first range that failed reaches the
/// caller once all ranges are done.
void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

/// The maximum number of threads that share such a call.
std::int64_t team_size(std::int64_t count, std::int64_t grain);
/// parallel_for with at most `team` threads, team_size(count, grain) or fewer. The body also receives the
/// index of its thread (0 is the caller), so that each thread can use its own memory, allocated by the
/// caller.
void parallel_for_team(std::int64_t team, std::int64_t count, std::int64_t grain,
                       FunctionRef<void(std::int64_t member, std::int64_t begin, std::int64_t end)> body);

}  // namespace heed
