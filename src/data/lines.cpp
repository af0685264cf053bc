// Lines, rows of tables, and the files of a folder, in the order of their names.
#include "data/lines.h"

#include <algorithm>
#include <utility>

#include "core/stop_scope.h"
#include "core/strings.h"
#include "core/text_lines.h"
#include "core/utf8.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

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

bool has_lost_characters(std::string_view text) {
  return text.find(kReplacementCharacter) != std::string_view::npos || first_invalid_utf8(text).has_value();
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
  if (!next_line(stream_, line)) {
    if (stream_.bad()) {
      throw Error(file_.string() + ": cannot be read after line " + std::to_string(count_) +
                  " (check the disk)");
    }
    return false;
  }
  if (count_ == 0) drop_byte_order_mark(line);
  ++count_;
  control_bytes_ += count_control_bytes(line);
  return true;
}

Table::Table(std::filesystem::path file, const std::string& format, bool header)
    : lines_(std::move(file)), quoted_(format == "csv"), header_(header) {}

bool Table::next_line() {
  if (!lines_.next(text_)) return false;
  utf8_ = utf8_ && !first_invalid_utf8(text_);
  return true;
}

bool Table::next(std::vector<std::string>& fields) {
  do {
    utf8_ = true;
    fields.clear();
    if (!next_line()) return false;
    line_ = lines_.count();
    if (quoted_) {
      split_quoted(fields);
    } else {
      split_at_tabs(fields);
    }
    if (width_ == 0 && !trimmed(text_).empty()) width_ = fields.size();
  } while (std::exchange(header_, false));
  return true;
}

void Table::check_width(const std::vector<std::string>& fields) const {
  if (fields.size() == width_) return;
  throw Error(where() + ": expected " + std::to_string(width_) + " columns, as in the first row, got " +
              std::to_string(fields.size()) +
              (quoted_ ? " (a text that has commas stands in quotes)"
                       : " (a tab separates columns; texts that have tabs need csv, with quotes, or jsonl)"));
}

void Table::split_at_tabs(std::vector<std::string>& fields) const {
  for (std::size_t begin = 0, end = 0; begin <= text_.size(); begin = end + 1) {
    end = std::min(text_.find('\t', begin), text_.size());
    fields.push_back(text_.substr(begin, end - begin));
  }
}

void Table::split_quoted(std::vector<std::string>& fields) {
  for (std::size_t at = 0;; ++at) {  // at the beginning of a field
    std::string& field = fields.emplace_back();
    if (at < text_.size() && text_[at] == '"') {
      for (++at;; ++at) {
        while (at == text_.size()) {
          if (!next_line())
            throw Error(where() + ": expected the quote that ends a field, got the end of the file");
          field += '\n';
          at = 0;
        }
        if (text_[at] == '"' && text_[++at] != '"') break;  // text_ ends with a zero
        field += text_[at];
      }
      if (at < text_.size() && text_[at] != ',') {
        throw Error(where() + ": expected a comma after the quote that ends a field, got \"" +
                    text_.substr(at) + "\" (a quote within a field is written twice)");
      }
    } else {
      const std::size_t end = std::min(text_.find(',', at), text_.size());
      field = text_.substr(at, end - at);
      at = end;
    }
    if (at == text_.size()) return;
  }
}

namespace fs = std::filesystem;

std::vector<fs::path> input_files(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(path), end; entry != end; ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file()) files.push_back(entry->path());
  }
  if (files.empty()) throw Error(path.string() + ": expected a folder with text files, got none in it");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace heed::data
