// Reads a text file line by line, without a byte order mark and carriage returns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace heed::data {

/// The number of bytes that a text does not have: zeros and other control codes but for white space. UTF-16
/// has many.
std::int64_t count_control_bytes(std::string_view text);
/// "3 control bytes such as NUL (is it UTF-16?)".
std::string control_bytes_text(std::int64_t count);

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

}  // namespace heed::data
