// The handler of SIGINT, SIGTERM and SIGHUP, and messages: errors of the standard library do not say what
// failed; their type and the state of stdout do.
#include "cli/terminal/exit.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "heed/error.h"

namespace heed::cli {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> first_signal{0};
std::atomic<bool> asked_before{false};
std::atomic<bool> hung_up{false};
bool ends_with_terminal = false;

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

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return false;
  ::close(terminal);
  return true;
}

constexpr int kErrorStatus = 1;

// What follows calls only functions that a handler of signals may call (signal-safety(7)).

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(STDERR_FILENO, text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

/// The next number in `line`, in base 16, which is removed from it with the character behind.
std::uintptr_t take_address(std::string_view& line) {
  std::uintptr_t number = 0;
  while (!line.empty()) {
    const char c = line.front();
    line.remove_prefix(1);
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    number = number * 16 + static_cast<unsigned>(digit);
  }
  return number;
}

/// Calls `use` with each line of a file; longer ones than the buffer are cut.
template <class Use>
void each_line(const char* file, Use use) {
  const int descriptor = ::open(file, O_RDONLY | O_CLOEXEC);
  char line[4096 + 256];  // NOLINT: a path has at most 4096 bytes
  std::size_t length = 0;
  char part[4096];  // NOLINT
  for (ssize_t got; descriptor >= 0 && (got = ::read(descriptor, part, sizeof part)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (part[i] == '\n') {
        use(std::string_view(line, length));
        length = 0;
      } else if (length < sizeof line) {
        line[length++] = part[i];
      }
    }
  }
}

/// Names the file that is mapped at the address.
void end_of_cut_file(int signal, siginfo_t* about, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(about->si_addr);
  bool found = false;
  each_line("/proc/self/maps", [&](std::string_view line) {
    const std::uintptr_t begin = take_address(line), end = take_address(line);
    const std::size_t path = line.find('/');
    if (address < begin || address >= end || path == line.npos) return;
    found = true;
    write_all("heed: error: ");
    write_all(line.substr(path));
    write_all(
        ": expected a file that keeps its length while it is used, got one that was cut, or a disk that "
        "failed (start again; write a new file beside the old one and rename it over)\n");
  });
  if (found) ::_exit(kErrorStatus);
  ::signal(signal, SIG_DFL);
}

}  // namespace

void report_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = end_of_cut_file;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

const std::atomic<bool>& stop_flag() {
  static const bool installed = [] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal);
    return true;
  }();
  (void)installed;
  return requested;
}

void catch_hangups() {
  struct sigaction action {};
  ::sigaction(SIGHUP, nullptr, &action);
  ends_with_terminal = action.sa_handler != SIG_IGN && has_terminal();  // nohup: it outlives the terminal
  action = {};
  action.sa_handler = [](int) { hung_up = true; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGHUP, &action, nullptr);
}

bool take_hangup() {
  if (!hung_up.exchange(false)) return false;
  if (!ends_with_terminal || has_terminal()) return true;
  request_stop(SIGHUP);
  return false;
}

bool stop_requested() { return requested; }

void forget_stop() {
  asked_before = false;
  first_signal = 0;
  requested = false;
}

int stop_signal() { return first_signal; }

int exit_status(const std::exception& error) {
  constexpr int kInternalError = 70;  // EX_SOFTWARE of sysexits.h
  return dynamic_cast<const InternalError*>(&error) != nullptr ? kInternalError : kErrorStatus;
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
