// What was typed before: kept in a file between runs, readable by its owner alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace heed::cli {

/// The file of a history: `name` in $XDG_STATE_HOME/heed, or else in ~/.local/state/heed; empty without a
/// home.
std::filesystem::path history_file(const std::string& name);

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

}  // namespace heed::cli
