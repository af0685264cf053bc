// Input lines that cannot be processed: the other lines are, and the command fails at its end.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "heed/error.h"

namespace heed::cli {

/// Thrown when the command's errors have been printed and only the exit status is left to set.
class ReportedError : public Error {
 public:
  ReportedError() : Error("some lines could not be answered") {}
};

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

}  // namespace heed::cli
