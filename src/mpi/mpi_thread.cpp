// Runs operations on one thread.
#include "mpi/mpi_thread.h"

#include <signal.h>
#include <sys/prctl.h>

#include <exception>
#include <utility>

#include "heed/error.h"

namespace heed::mpi {

struct MpiThread::Job {
  std::function<void()> operation;
  std::shared_ptr<const void> owner;
  bool done = false;
};

class MpiThread::Pending final : public PendingOperation {
 public:
  Pending(MpiThread& worker, std::shared_ptr<Job> job) : worker_(worker), job_(std::move(job)) {}
  void wait() override {
    std::unique_lock lock(worker_.mutex_);
    worker_.changed_.wait(lock, [&] { return job_->done; });
    if (!worker_.failure_.empty()) throw Error(worker_.failure_);
  }

 private:
  MpiThread& worker_;
  std::shared_ptr<Job> job_;
};

MpiThread::MpiThread(std::function<void()> begin, std::function<void()> end) {
  // The thread inherits a mask that leaves all signals to the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, begin = std::move(begin), end = std::move(end)] { loop(begin, end); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  try {
    start([] {}, nullptr)->wait();
  } catch (const Error&) {
    stop();
    throw;
  }
}

MpiThread::~MpiThread() { stop(); }

void MpiThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<PendingOperation> MpiThread::start(std::function<void()> operation,
                                                   std::shared_ptr<const void> owner) {
  auto job = std::make_shared<Job>(Job{std::move(operation), std::move(owner)});
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  return std::make_unique<Pending>(*this, std::move(job));
}

void MpiThread::run(Job& job) {
  std::string failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure.empty()) {
    try {
      job.operation();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  job.done = true;
  job.owner = nullptr;
}

void MpiThread::loop(const std::function<void()>& begin, const std::function<void()>& end) {
  ::prctl(PR_SET_NAME, "heed-mpi");
  ::prctl(PR_SET_TIMERSLACK, 1);  // waits for messages are short
  Job first{begin, nullptr};
  run(first);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) break;
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    run(*job);
    changed_.notify_all();
    lock.lock();
  }
  const bool whole = failure_.empty();
  lock.unlock();
  if (whole) end();
}

}  // namespace heed::mpi
