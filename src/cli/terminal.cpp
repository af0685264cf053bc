// Terminals, warnings and progress.
#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "heed/error.h"

namespace heed::cli {

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool colour_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return stdout_is_terminal() && (no_color == nullptr || *no_color == '\0');
}

int terminal_width(int otherwise) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return otherwise;
}

void warn(const std::string& message) { say("heed: warning: " + message); }
// What cannot be said must not end the work: fmt::print would throw.
void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

void flush_results() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return;
  const std::string reason = errno != 0 ? std::strerror(errno) : "an error";
  throw Error("stdout: expected to write the results, got \"" + reason + "\"");
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

void Progress::show(std::int64_t done, std::int64_t total, const std::string& text) {
  show_text(done, total, fmt::format("{}/{} {}", done, total, text));
}

void Progress::show_text(std::int64_t done, std::int64_t total, const std::string& text) {
  if (quiet_) return;
  const bool bar = stderr_is_terminal();
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  if (done < total && since < (bar ? kRedrawSeconds : kLineSeconds)) return;
  last_ = now;
  if (!bar) {
    say(text);
    return;
  }
  constexpr std::int64_t kWidth = 24;
  const std::int64_t filled = total > 0 ? done * kWidth / total : 0;
  std::string cells;
  for (std::int64_t i = 0; i < kWidth; ++i) cells += i < filled ? "█" : "░";
  std::fputs(fmt::format("\r\033[K{} {}", cells, text).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_) say("");
  drawn_ = false;
}

}  // namespace heed::cli
