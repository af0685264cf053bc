// The handler of SIGINT, SIGTERM and SIGHUP, and messages: errors of the standard library do not say what
// failed; their type and the state of stdout do.
#include "cli/terminal/exit.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "heed/error.h"

namespace heed::cli {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> first_signal{0};
std::atomic<bool> asked_before{false};

// A closing terminal sends SIGHUP repeatedly, and other signals after it, so SIGHUP does not count as a first
// request.
void request_stop(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  requested = true;
  if (signal == SIGHUP || !asked_before.exchange(true)) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void handle(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;  // files are written completely; waits for input poll
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

const std::atomic<bool>& stop_flag() {
  static const bool installed = [] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal);
    return true;
  }();
  (void)installed;
  return requested;
}

bool stop_requested() { return requested; }

void forget_stop() {
  asked_before = false;
  first_signal = 0;
  requested = false;
}

int stop_signal() { return first_signal; }

int exit_status(const std::exception& error) {
  constexpr int kFailed = 1, kInternalError = 70;  // EX_SOFTWARE of sysexits.h
  return dynamic_cast<const InternalError*>(&error) != nullptr ? kInternalError : kFailed;
}

std::string failure(const std::exception& error) {
  if (dynamic_cast<const InternalError*>(&error) != nullptr)
    return std::string(error.what()) + " (a bug of heed: please report it)";
  // A container that is asked for more elements than can be addressed throws length_error.
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr)
    return "memory: not enough for this work (make the batch or the input smaller)";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return file->path1().string() + ": cannot be used (" + file->code().message() + ")";
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    const std::string reason = system->code().message();
    if (std::ferror(stdout) != 0) return "stdout: cannot write the results (" + reason + ")";
    if (system->code() == std::errc::resource_unavailable_try_again)
      return "threads: cannot start another (" + reason + "; use fewer with --threads)";
    return std::string("system: ") + system->what();
  }
  return error.what();
}

}  // namespace heed::cli
