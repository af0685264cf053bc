// The handler of SIGINT, SIGTERM and SIGHUP.
#include "cli/terminal/signals.h"

#include <signal.h>

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

}  // namespace heed::cli
