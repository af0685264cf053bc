// Text files as a recipe names them: the files of a path, their lines, and the rows of tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace heed::data {

/// The number of bytes that a text does not have: zeros and other control codes but for white space. UTF-16
/// has many.
std::int64_t count_control_bytes(std::string_view text);
/// "3 control bytes such as NUL (is it UTF-16?)".
std::string control_bytes_text(std::int64_t count);

/// Whether a text has bytes that are not UTF-8, or U+FFFD, which stands for what a conversion has lost.
bool has_lost_characters(std::string_view text);

class Lines {
 public:
  /// Throws Error if the file cannot be opened.
  explicit Lines(std::filesystem::path file);
  /// Reads the next line, or returns false at the end. Throws Error if reading fails, and Canceled
  /// (throw_if_stopped).
  bool next(std::string& line);
  /// The number of lines read so far.
  std::int64_t count() const { return count_; }
  /// In the lines read so far (count_control_bytes).
  std::int64_t control_bytes() const { return control_bytes_; }
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
  std::int64_t count_ = 0, control_bytes_ = 0;
};

// Rows of a text file of columns: separated by tabs as they are, or by commas with quotes (RFC 4180).
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
  /// The number of fields of the first row that is not blank, a header included.
  std::size_t width() const { return width_; }
  /// Throws Error unless `fields`, the last row, has as many: a separator in a text makes one more.
  void check_width(const std::vector<std::string>& fields) const;
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
  std::size_t width_ = 0;
  std::string text_;  // the last line read
  bool utf8_ = true;
  std::int64_t line_ = 0;
};

/// The file, or all files of a folder and the folders in it, in the order of their names; those whose names
/// begin with a dot are left out. Throws Error if the folder has none.
std::vector<std::filesystem::path> input_files(const std::filesystem::path& path);

}  // namespace heed::data
