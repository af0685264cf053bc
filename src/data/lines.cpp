#include "data/lines.h"

#include <algorithm>

#include "core/stop_scope.h"
#include "files/input_file.h"
#include "heed/error.h"

namespace heed::data {

std::int64_t count_control_bytes(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return (code < 0x20 && (code < '\t' || code > '\r')) || code == 0x7f;
  });
}

std::string control_bytes_text(std::int64_t count) {
  return std::to_string(count) + " control byte" + (count == 1 ? "" : "s") +
         " such as NUL, which are read as they are (is the file UTF-16?)";
}

Lines::Lines(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) throw Error("\"\" is not a file name (give the path of a file)");
  std::error_code ignored;
  if (std::filesystem::is_directory(file_, ignored)) {
    throw Error(file_.string() + ": expected a text file, got a directory (name the file in it)");
  }
  stream_.open(file_, std::ios::binary);
  if (!stream_) {
    throw Error(file_.string() + (has_entry(file_) ? ": cannot be read (check its permissions)"
                                                   : ": not found (check the path)"));
  }
}

bool Lines::next(std::string& line) {
  throw_if_stopped();
  if (!std::getline(stream_, line)) {
    if (stream_.bad()) {
      throw Error(file_.string() + ": cannot be read after line " + std::to_string(count_) +
                  " (check the disk)");
    }
    return false;
  }
  if (count_ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  if (line.ends_with('\r')) line.pop_back();
  ++count_;
  control_bytes_ += count_control_bytes(line);
  return true;
}

}  // namespace heed::data
