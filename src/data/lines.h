// Reads a text file line by line, without a byte order mark and carriage returns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace heed::data {

class Lines {
 public:
  /// Throws Error if the file cannot be opened.
  explicit Lines(std::filesystem::path file);
  /// Reads the next line, or returns false at the end. Throws Error if reading fails.
  bool next(std::string& line);
  /// The number of lines read so far.
  std::int64_t count() const { return count_; }
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
  std::int64_t count_ = 0;
};

}  // namespace heed::data
