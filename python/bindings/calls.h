// Calls of the library from Python: without the interpreter's lock, and ended by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "heed/core/stop_scope.h"

namespace heed::python {

namespace nb = nanobind;

/// Runs `work` while other Python threads run. On the main thread of the interpreter the handlers of signals
/// run meanwhile; where one raises (Ctrl-C: KeyboardInterrupt), `stop` becomes true, and the exception leaves
/// this call once `work` has ended. Exceptions of `work` leave it as they are. `work` may take the lock.
void run_unlocked(const std::function<void(const std::atomic<bool>& stop)>& work);

/// The result of work that ends once `stop` is true, also in calls that do not take it.
template <class Work>
auto unlocked(Work&& work) {
  std::optional<std::invoke_result_t<Work, const std::atomic<bool>&>> result;
  run_unlocked([&](const std::atomic<bool>& stop) {
    const StopScope scope(stop);
    result.emplace(work(stop));
  });
  return std::move(*result);
}

}  // namespace heed::python
