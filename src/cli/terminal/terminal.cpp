// Terminals, warnings and progress.
#include "cli/terminal/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <utility>

#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

std::string escaped(char byte) { return fmt::format("\\x{:02x}", static_cast<unsigned char>(byte)); }

// Embeddings, overrides and isolates, with which a text can be shown in another order than it has (Unicode
// Standard Annex 9); the marks U+200E, U+200F and U+061C, which texts of two directions need, cannot do that.
bool steers_direction(std::string_view character) {
  return (character >= "\u202A" && character <= "\u202E") || (character >= "\u2066" && character <= "\u2069");
}

enum class LineEnds { as_spaces, kept };

// `text` must be valid UTF-8.
void append_without_controls(std::string& out, std::string_view text, LineEnds ends) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (ends == LineEnds::kept && (text[i] == '\n' || text[i] == '\t')) {
      out += text[i];
    } else if (ends == LineEnds::as_spaces && (text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) {
      out += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      out += escaped(text[i]);
    } else if (byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      // U+0080 to U+009F, which some terminals also interpret as control characters.
      out += escaped(text[i]) + escaped(text[i + 1]);
      ++i;
    } else if (const std::string_view steering = text.substr(i, 3); steers_direction(steering)) {
      std::size_t at = 0;
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(next_character(steering, at)));
      i += 2;
    } else {
      out += text[i];
    }
  }
}

std::string without_controls(std::string_view rest, LineEnds ends) {
  std::string out;
  while (!rest.empty()) {
    const std::size_t valid = first_invalid_utf8(rest).value_or(rest.size());
    append_without_controls(out, rest.substr(0, valid), ends);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    out += escaped(rest.front());
    rest.remove_prefix(1);
  }
  return out;
}

// The line of what is waited for, which others that write to stderr clear first.
std::mutex waiting_mutex;
bool waiting_line = false;

void clear_waiting_line() {
  if (std::exchange(waiting_line, false)) std::fputs("\r\033[K", stderr);
}

// The bytes of the character that begins with this one.
std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

int columns_of(int descriptor, int default_value) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return default_value;
}

// The characters of a text that fit in `width` columns.
std::string fitting(std::string_view text, int width) {
  std::string out;
  int used = 0;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_bytes(text.front()));
    used += display_width(character);
    if (used > width) break;
    out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool color_stdout() {
  const char *no_color = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool may = no_color == nullptr || *no_color == '\0';
  const bool can = terminal == nullptr || std::string_view(terminal) != "dumb";
  return stdout_is_terminal() && may && can;
}

int terminal_width(int default_value) {
  if (!stdout_is_terminal()) return default_value;
  constexpr int kUsual = 80;
  const char* told = std::getenv("COLUMNS");
  const int columns = told == nullptr ? 0 : std::atoi(told);
  return columns_of(STDOUT_FILENO, columns > 0 ? columns : kUsual);
}

TerminalStyle terminal_style(int width) {
  constexpr int kNarrowest = 40;
  if (!stdout_is_terminal()) return {.width = width};
  const bool color = color_stdout();
  return {std::max(kNarrowest, terminal_width(width)), color, color && light_terminal()};
}

void print_styled(const std::string& text) { fmt::print("{}", text); }

std::string safe_for_stdout(const std::string& text) {
  return stdout_is_terminal() ? without_controls(text, LineEnds::kept) : text;
}

std::string printable(const std::string& text) {
  const std::string out = without_controls(text, LineEnds::as_spaces);
  constexpr std::size_t kHead = 900, kTail = 300;
  if (out.size() <= kHead + kTail) return out;
  const auto continues = [&](std::size_t at) { return !is_utf8_start(out[at]); };
  std::size_t head = kHead, tail = out.size() - kTail;
  while (continues(head)) --head;
  while (continues(tail)) ++tail;
  return out.substr(0, head) + " … " + out.substr(tail);
}

void warn(const std::string& message) { print_stderr(printable("heed: warning: " + message)); }
// A failing stderr must not end the work: fmt::print would throw.
void print_stderr(const std::string& lines) {
  std::string out;
  for (std::size_t begin = 0; begin <= lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    out += printable(lines.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  const std::lock_guard lock(waiting_mutex);
  clear_waiting_line();
  std::fputs(out.c_str(), stderr);
}

Waiting::Waiting(const std::string& what, bool quiet) {
  if (quiet || !stderr_is_terminal()) return;
  shows_ = std::jthread([what](const std::stop_token& stop) {
    std::condition_variable_any condition;
    const auto begun = std::chrono::steady_clock::now();
    std::unique_lock lock(waiting_mutex);
    for (int seconds = 1;; ++seconds) {
      condition.wait_until(lock, stop, begun + std::chrono::seconds(seconds), [] { return false; });
      if (stop.stop_requested()) return clear_waiting_line();
      waiting_line = true;
      const std::string line = printable(fmt::format("{} {}", what, clock_time(seconds)));
      std::fputs(fmt::format("\r\033[K{}", fitting(line, columns_of(STDERR_FILENO, 80) - 1)).c_str(), stderr);
      std::fflush(stderr);
    }
  });
}

Waiting::~Waiting() = default;

void flush_results() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return;
  const std::string reason = errno != 0 ? std::strerror(errno) : "an error";
  throw Error("stdout: cannot write the results (" + reason + ")");
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

void Progress::show(std::int64_t done, std::int64_t total, const std::string& text) {
  show_text(done, total,
            total == 0 ? fmt::format("{} {}", done, text) : fmt::format("{}/{} {}", done, total, text));
}

void Progress::show_text(std::int64_t done, std::int64_t total, const std::string& text) {
  if (quiet_) return;
  const bool bar = stderr_is_terminal();
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  if ((done < total || total == 0) && since < (bar ? kRedrawSeconds : kLineSeconds)) return;
  last_ = now;
  if (!bar) {
    print_stderr(text);
    return;
  }
  // A line that reaches the last column would begin another one with every tick.
  constexpr int kWidest = 24, kNarrowest = 4;
  const int room = columns_of(STDERR_FILENO, 80) - 1;
  const std::string shown = fitting(printable(text), room);
  const std::int64_t left = std::min(kWidest, room - display_width(shown) - 1);
  const std::int64_t width = left < kNarrowest || total == 0 ? 0 : left;
  const std::int64_t filled = total > 0 ? done * width / total : 0;
  std::string cells;
  for (std::int64_t i = 0; i < width; ++i) cells += i < filled ? "█" : "░";
  std::fputs(fmt::format("\r\033[K{}{}{}", cells, width > 0 ? " " : "", shown).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_) print_stderr("");
  drawn_ = false;
}

void WrappedText::end_word(std::string& out) {
  const int spaces = static_cast<int>(spaces_.size()), word = display_width(word_);
  if (word_.empty()) return;
  if (column_ > 0 && column_ + spaces + word > width_) {
    out += '\n';
    column_ = 0;
  } else {
    out += spaces_;
    column_ += spaces;
  }
  out += word_;
  column_ += word;
  spaces_.clear();
  word_.clear();
}

std::string WrappedText::add(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_bytes(text.front()));
    text.remove_prefix(character.size());
    if (character == "\n") {
      end_word(out);
      spaces_.clear();
      out += '\n';
      column_ = 0;
    } else if (character == " " || character == "\t") {
      end_word(out);
      spaces_ += character == " " ? " " : "    ";
    } else {
      if (display_width(character) == 2) end_word(out);  // scripts without spaces
      word_ += character;
      if (display_width(character) == 2) end_word(out);
    }
  }
  return out;
}

std::string WrappedText::finish() {
  std::string out;
  end_word(out);
  column_ = 0;
  spaces_.clear();
  return out;
}

}  // namespace heed::cli
