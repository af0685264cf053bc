#include "calls.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "heed/error.h"

namespace heed::python {
namespace {

constexpr std::chrono::milliseconds kPatience{10};  // between looks at signals

bool is_main_thread() {
  const nb::object threading = nb::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

}  // namespace

void run_unlocked(const std::function<void(const std::atomic<bool>& stop)>& work) {
  std::atomic<bool> stop = false;
  if (!is_main_thread()) {  // signals are handled by another
    const nb::gil_scoped_release unlock;
    return work(stop);
  }
  std::exception_ptr failure, raised;
  {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    const nb::gil_scoped_release unlock;
    std::thread worker([&] {
      try {
        work(stop);
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      ended.notify_one();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, kPatience, [&] { return done; })) {
      lock.unlock();
      if (raised == nullptr) {
        const nb::gil_scoped_acquire relock;
        if (PyErr_CheckSignals() != 0) {
          raised = std::make_exception_ptr(nb::python_error());
          stop = true;
        }
      }
      lock.lock();
    }
    lock.unlock();
    worker.join();
  }
  if (raised != nullptr) std::rethrow_exception(raised);
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace heed::python
