#include "data/lines.h"

#include "files/input_file.h"
#include "heed/error.h"

namespace heed::data {

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
  return true;
}

}  // namespace heed::data
