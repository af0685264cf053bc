// Warnings on stderr, text and progress that suit a terminal or a log file.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "heed/plot/picture.h"

namespace heed::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();
/// Returns true if stdout may be colored: it is a terminal, and NO_COLOR is not set.
bool color_stdout();
/// Returns the number of columns of the terminal on stdout: as it says, or $COLUMNS, or 80. Elsewhere returns
/// `default_value`.
int terminal_width(int default_value);
/// Returns true if the background of the terminal is light: by $HEED_BACKGROUND (dark or light), or else
/// COLORFGBG, which some terminals set, or else the terminal's own answer, if stdin and stdout are it.
bool light_terminal();
/// Warns of another word in $HEED_BACKGROUND, which has no effect.
void warn_of_unknown_background();
/// How pictures and tables are shown on stdout, where `width` is that of a file.
TerminalStyle terminal_style(int width);

/// Returns `text` as one line that is safe for any terminal: line ends and tabs become spaces, other control
/// characters and invalid UTF-8 are escaped as in \x1b, embeddings and isolates of the writing direction as
/// in \u202e, and a long text loses its middle.
std::string printable(const std::string& text);

/// Returns a text for stdout. Where that is a terminal, what printable() escapes is escaped, but for line
/// ends and tabs, so that no text of a model or a file can change the terminal; elsewhere it is unchanged.
std::string safe_for_stdout(const std::string& text);

/// Prints what has escape sequences of heed's own, made of texts that are safe.
void print_styled(const std::string& text);
/// Prints to stdout through safe_for_stdout(): the only way of any other text there.
template <class... Args>
void print_stdout(fmt::format_string<Args...> format, Args&&... args) {
  print_styled(safe_for_stdout(fmt::format(format, std::forward<Args>(args)...)));
}

/// Prints "heed: warning: MESSAGE" to stderr.
void warn(const std::string& message);
/// Prints one or several lines to stderr, each made printable.
void print_stderr(const std::string& lines);

/// Flushes stdout. Throws Error if it cannot be written to (a full disk).
void flush_results();

/// Returns a duration such as "1:05" or "2:03:20".
std::string clock_time(double seconds);

/// Text that is written to a terminal while it comes, with lines that end between words.
/// Threads: one at a time.
class WrappedText {
 public:
  explicit WrappedText(int width) : width_(width) {}
  /// Takes more of the text, valid UTF-8 in whole characters, and returns what can be shown. The word that is
  /// not complete is held back.
  std::string add(std::string_view text);
  /// Returns the rest, and begins anew.
  std::string finish();

 private:
  void end_word(std::string& out);

  int width_;
  int column_ = 0;
  std::string spaces_, word_;  // not shown yet
};

/// Work that does not tell how far it is: after a second, what it is and the time that it has taken, on a
/// terminal, until the end of this object's life, when the line is cleared. Warnings may be printed
/// meanwhile. One at a time.
class Waiting {
 public:
  Waiting(const std::string& what, bool quiet);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::jthread shows_;
};

/// A progress bar that redraws itself on a terminal; elsewhere, a plain line every `kLineSeconds`.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet) {}
  ~Progress() { finish(); }
  /// Shows the progress (done of total), with `text` after the bar; total 0: it is not known.
  void show(std::int64_t done, std::int64_t total, const std::string& text);
  /// The same with the complete text given.
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
