// Lines typed in a terminal: editing, history and completion, by libedit.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace heed::cli {

/// The file of a history: `name` in $XDG_STATE_HOME/heed, or else in ~/.local/state/heed; empty without a
/// home.
std::filesystem::path history_file(const std::string& name);

/// What was typed before: kept in a file between runs, readable by its owner alone.
class LineHistory {
 public:
  /// Reads the entries of a file, which need not be there. Without a file, entries are kept until the end of
  /// the run. A file that cannot be read or written is told once, as a warning.
  explicit LineHistory(std::filesystem::path file = {});
  /// Oldest first, at most `kMost`.
  const std::vector<std::string>& entries() const { return entries_; }
  /// Appends an entry of one or several lines. One that is empty, repeats the last, or is very long is not
  /// kept.
  void add(const std::string& entry);

 private:
  static constexpr std::size_t kMost = 1000;

  void append(const std::string& line);
  void warn_once(const std::string& reason);

  std::filesystem::path file_;  // empty: none
  std::vector<std::string> entries_;
};

/// What a word at the beginning of a line is followed by.
struct CompletedWord {
  std::string text;
  bool takes_file = false;
};

/// The terminal is that of stdin and stdout. Keys are those of Emacs, or what ~/.editrc says.
/// Threads: one at a time, and one editor in a process.
class LineEditor {
 public:
  /// Tab completes `words` and the names of files after them. What is typed is added to `history`.
  LineEditor(std::vector<CompletedWord> words, LineHistory history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Waits for a line, which is `line` then, without its end and in valid UTF-8; lines that were pasted
  /// together are one, with line ends in it, where the terminal tells (bracketed paste). `prompt` may have
  /// escape sequences, each between two \1. Returns false at the end of the input (Ctrl-D). Throws Canceled
  /// after a signal.
  bool read(const std::string& prompt, std::string& line);
  /// Adds what was read to the history.
  void remember(const std::string& entry);
  /// Returns true if more of the input is there already.
  bool has_more() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::cli
