// Rows of a text file of columns: separated by tabs as they are, or by commas with quotes (RFC 4180).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/lines.h"

namespace heed::data {

class Table {
 public:
  /// `format` is tsv or csv; a header is a first row that is not read. Throws Error if the file cannot be
  /// opened.
  Table(std::filesystem::path file, const std::string& format, bool header);
  /// Reads the fields of the next row, or returns false at the end. A quoted field of csv may have commas,
  /// line breaks, and quotes as two each. Throws Error naming file and line for quotes that do not match.
  bool next(std::vector<std::string>& fields);
  /// Whether the row is valid UTF-8.
  bool is_utf8() const { return utf8_; }
  /// The line, from 1, on which the row begins.
  std::int64_t line() const { return line_; }
  /// "FILE:LINE" of it.
  std::string where() const { return lines_.file().string() + ":" + std::to_string(line_); }
  /// The number of lines read so far.
  std::int64_t lines() const { return lines_.count(); }
  std::int64_t control_bytes() const { return lines_.control_bytes(); }

 private:
  bool next_line();
  void split_at_tabs(std::vector<std::string>& fields) const;
  void split_quoted(std::vector<std::string>& fields);

  Lines lines_;
  bool quoted_, header_;
  std::string text_;  // the last line read
  bool utf8_ = true;
  std::int64_t line_ = 0;
};

}  // namespace heed::data
