// The background of the terminal: what the user or the terminal's environment says of it, or its own answer
// to OSC 11 (XTerm Control Sequences).
#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"

namespace heed::cli {
namespace {

constexpr const char *kVariable = "HEED_BACKGROUND", *kLight = "light", *kDark = "dark";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Input without echo that is read before the line ends, as long as this exists.
class AnswerMode {
 public:
  AnswerMode() {
    stop_flag();  // Ctrl-C must not end the process before the mode is restored
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios mode = before_;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    set_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0;
  }
  ~AnswerMode() {
    if (set_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  AnswerMode(const AnswerMode&) = delete;
  AnswerMode& operator=(const AnswerMode&) = delete;
  bool set() const { return set_; }

 private:
  termios before_{};
  bool set_ = false;
};

bool has_input(int milliseconds) {
  pollfd descriptor{STDIN_FILENO, POLLIN, 0};
  return ::poll(&descriptor, 1, milliseconds) > 0;
}

// Whether the terminal may be asked: it is one of a program that knows such questions, and this process has
// it.
bool may_ask() {
  const std::string name = environment("TERM");
  const bool silent = name.empty() || name == "dumb" || name == "linux" ||
                      (name.starts_with("screen") && environment("TMUX").empty());
  return !silent && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 &&
         ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

// What the terminal answers. The question for its attributes, which follows and which all know, tells when to
// stop waiting for one that does not know its colors. What is typed meanwhile is lost, so nothing is asked
// when something is typed already.
std::string answer_of_terminal() {
  constexpr std::string_view kQuestion = "\x1b]11;?\x1b\\\x1b[c";
  constexpr int kNearMs = 100, kFarMs = 500;
  const AnswerMode mode;
  flush_results();
  if (!mode.set() || has_input(0) ||
      ::write(STDOUT_FILENO, kQuestion.data(), kQuestion.size()) != std::ssize(kQuestion))
    return "";
  const int wait = environment("SSH_CONNECTION").empty() ? kNearMs : kFarMs;
  std::string answer;
  const auto complete = [&] {
    const std::size_t attributes = answer.find("\x1b[?");
    return attributes != answer.npos && answer.find('c', attributes) != answer.npos;
  };
  while (!complete() && answer.size() < 256 && has_input(wait)) {
    std::array<char, 64> piece;
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count <= 0) break;
    answer.append(piece.data(), static_cast<std::size_t>(count));
  }
  if (!complete()) ::tcflush(STDIN_FILENO, TCIFLUSH);
  return answer;
}

// The share of full brightness that `rgb:RRRR/GGGG/BBBB` has, with 1 to 4 digits each; none without it.
std::optional<double> brightness(const std::string& answer) {
  const std::size_t begin = answer.find("rgb:");
  if (begin == answer.npos) return std::nullopt;
  constexpr std::array<double, 3> kParts{0.2126, 0.7152, 0.0722};  // ITU-R BT.709
  const char* at = answer.c_str() + begin + 4;
  double sum = 0;
  for (const double part : kParts) {
    char* end = nullptr;
    const unsigned long level = std::strtoul(at, &end, 16);
    const auto digits = end - at;
    if (digits < 1 || digits > 4) return std::nullopt;
    sum += part * static_cast<double>(level) / static_cast<double>((1UL << (4 * digits)) - 1);
    at = *end == '/' ? end + 1 : end;
  }
  return sum;
}

}  // namespace

void warn_of_unknown_background() {
  const std::string told = environment(kVariable);
  if (told.empty() || told == kLight || told == kDark) return;
  warn(fmt::format("{}: expected {} or {}, got {}", kVariable, kDark, kLight, told));
}

bool light_terminal() {
  const std::string told = environment(kVariable);
  if (told == kLight || told == kDark) return told == kLight;
  const std::string colors = environment("COLORFGBG");  // such as 0;15: the last is the background's
  if (colors.find(';') != colors.npos) {
    const std::string background = colors.substr(colors.rfind(';') + 1);
    return background == "7" || (background.size() == 2 && background[0] == '1');
  }
  constexpr double kMiddle = 0.5;
  return may_ask() && brightness(answer_of_terminal()).value_or(0) > kMiddle;
}

}  // namespace heed::cli
