// The driver of the commands that read lines and write a result for each: windows of lines, warnings, lines
// that cannot be processed (the others are, and the command fails at its end), and several processes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "heed/error.h"
#include "heed/text/task_options.h"

namespace heed::cli {

/// Thrown when the command's errors have been printed and only the exit status is left to set.
class ReportedError : public Error {
 public:
  ReportedError() : Error("some lines could not be answered") {}
};

/// Lines that failed.
class FailedLines {
 public:
  explicit FailedLines(bool json) : json_(json) {}
  /// Prints `heed: error: line N: MESSAGE`; `line` counts from 0.
  void add(std::size_t line, const std::string& message);
  /// If the line failed, prints a replacement for its result (an empty line, or with --json an object
  /// `{"error": MESSAGE}`) and returns true.
  bool print_in_place_of(std::size_t line) const;
  /// Throws ReportedError if any line failed.
  void finish() const;

 private:
  bool json_;
  std::map<std::size_t, std::string> messages_;
};

/// A window of valid texts, which may be empty. `options` count lines, warn of them, and report failed ones.
struct LineWindow {
  const std::vector<std::string>& texts;
  const TaskOptions& options;
  const FailedLines& failed;  // filled while the task runs
  TextWindows& source;
};

/// Returns options whose callbacks print warnings (unless --quiet) and errors of lines.
TaskOptions line_options(const Globals& globals, std::int64_t batch_tokens, FailedLines& failed);

/// Calls `handle` with each window of `texts`, or of the lines of stdin if there are none; a window has at
/// most `most` texts. Throws ReportedError at the end if any line failed.
void for_each_window(const std::vector<std::string>& texts, std::int64_t batch_tokens, const Globals& globals,
                     const std::function<void(const LineWindow& window)>& handle, std::size_t most = 2048);

/// A line whose result is printed.
struct Line {
  std::size_t index;  // counted from 0
  const std::string& text;
  const LineWindow& window;
  /// Returns true if the input has no other line. Waits if that is not known yet.
  bool is_only() const { return index == 0 && window.texts.size() == 1 && window.source.at_end(); }
};

/// The same with one result per line: `compute(texts, options)` returns a window's results, and
/// `print(result, line)` prints one. A failed line's replacement is printed instead of its result.
template <class Compute, class Print>
void for_each_line(const std::vector<std::string>& texts, std::int64_t batch_tokens, const Globals& globals,
                   const Compute& compute, const Print& print, std::size_t most = 2048) {
  const auto handle = [&](const LineWindow& window) {
    if (window.texts.empty()) return;
    std::size_t i = 0;
    for (auto& result : compute(window.texts, window.options)) {
      const Line line{window.options.first_index + i, window.texts[i], window};
      if (!window.failed.print_in_place_of(line.index)) print(result, line);
      ++i;
    }
  };
  for_each_window(texts, batch_tokens, globals, handle, most);
}

}  // namespace heed::cli
