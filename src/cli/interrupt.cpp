// The handler of SIGINT.
#include "cli/interrupt.h"

#include <csignal>

namespace heed::cli {
namespace {

std::atomic<bool> flag{false};

bool install() {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return false;
  struct sigaction action {};
  action.sa_handler = [](int) { flag = true; };
  // Without SA_RESTART: a command that waits for a line stops waiting.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  return sigaction(SIGINT, &action, nullptr) == 0;
}

}  // namespace

const std::atomic<bool>& interrupt_flag() {
  static const bool installed = install();
  (void)installed;
  return flag;
}

bool interrupted() { return flag; }

}  // namespace heed::cli
