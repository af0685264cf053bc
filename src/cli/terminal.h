// Talking to people: warnings on stderr, and progress that suits a terminal or a log file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace heed::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();
/// Whether to colour what goes to stdout: a terminal, and NO_COLOR not set.
bool colour_stdout();
/// Columns of the terminal on stdout, or `otherwise`.
int terminal_width(int otherwise);

/// `text` as one line that any terminal may show: line ends and tabs as spaces, other control characters and
/// bytes that are no UTF-8 as \x1b, and a long text without its middle.
std::string printable(const std::string& text);

/// "heed: warning: MESSAGE" on stderr.
void warn(const std::string& message);
/// One or several lines on stderr, each printable.
void say(const std::string& lines);

/// Hands what was printed so far to stdout. Throws Error when it takes no more (a full disk).
void flush_results();

/// "1:05" or "2:03:20"
std::string clock_time(double seconds);

/// A bar that redraws itself on a terminal, and a plain line every `kLineSeconds` elsewhere.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet) {}
  ~Progress() { finish(); }
  /// Shows how far the work is (done of total), with `text` behind the bar.
  void show(std::int64_t done, std::int64_t total, const std::string& text);
  /// The same with the whole text given.
  void show_text(std::int64_t done, std::int64_t total, const std::string& text);
  /// Ends the bar's line, so that other lines can follow.
  void finish();

 private:
  static constexpr double kLineSeconds = 10;
  static constexpr double kRedrawSeconds = 0.1;
  bool quiet_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace heed::cli
