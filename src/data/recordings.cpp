// Reads tables and folders of recordings, with the rows that lack a text counted.
#include "data/corpora.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json_field.h"
#include "core/strings.h"
#include "data/lines.h"
#include "heed/core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class RecordingReader {
 public:
  RecordingReader(const DataOptions& data, const fs::path& folder)
      : data_(data), read_{.entries = SpilledRecords<LabeledText>(folder)} {}

  // Columns by number, or, of a metadata.csv, by the names in the first row.
  void read_table(const fs::path& file, const std::string& format, bool by_name) {
    begin(file);
    std::int64_t sound = data_.source_column - 1, text = data_.target_column - 1;
    data::Table table(file, format, data_.header && !by_name);
    std::vector<std::string> row;
    if (by_name && table.next(row)) {
      sound = column_named(row, kFileName, table.where());
      text = column_named(row, data_.target_key, table.where());
    }
    while (table.next(row)) {
      if (!table.is_utf8())
        throw Error(table.where() + ": expected UTF-8, got other bytes (convert the file)");
      if (std::all_of(row.begin(), row.end(), [](const std::string& one) { return trimmed(one).empty(); }))
        continue;
      if (std::ssize(row) <= std::max(sound, text))
        throw Error(fmt::format("{}: expected {} columns separated by {}, got {}{}", table.where(),
                                std::max(sound, text) + 1, format == "csv" ? "commas" : "tabs", row.size(),
                                by_name ? "" : " (data.source_column and data.target_column choose them)"));
      table.check_width(row);
      add(row[static_cast<std::size_t>(sound)], row[static_cast<std::size_t>(text)], table.line());
    }
    read_.control_bytes += table.control_bytes();
  }

  void read_objects(const fs::path& file, const std::string& sound_key) {
    begin(file);
    data::Lines lines(file);
    for (std::string line; lines.next(line);) {
      if (trimmed(line).empty()) continue;
      const std::string where = fmt::format("{}:{}", file.string(), lines.count());
      const Json json = parse_json(line, where);
      const JsonField object(json, where);
      add(object.at(sound_key).string(), object.at(data_.target_key).string(), lines.count());
    }
    read_.control_bytes += lines.control_bytes();
  }

  LabeledTexts finish(const fs::path& path) {
    if (read_.size() == 0) throw Error(path.string() + ": expected recordings with their texts, got none");
    read_.entries.finish();
    return std::move(read_);
  }

  static constexpr const char* kFileName = "file_name";

 private:
  void begin(const fs::path& file) { read_.files.push_back(file); }

  std::int64_t column_named(const std::vector<std::string>& names, const std::string& name,
                            const std::string& where) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw Error(fmt::format("{}: expected a column {} in the first row, got none{}", where, name,
                              name == kFileName ? "" : " (data.target_key names the column of the texts)"));
    return found - names.begin();
  }

  void add(const std::string& sound, const std::string& text, std::int64_t line) {
    if (trimmed(text).empty()) {
      ++read_.skipped;
      return;
    }
    LabeledText one{"", "", {std::string(trimmed(text))}, std::ssize(read_.files) - 1, line};
    if (trimmed(sound).empty()) throw Error(read_.where(one) + ": expected the path of a sound, got none");
    one.text = (read_.files.back().parent_path() / std::string(trimmed(sound))).string();
    read_.entries.add(one);
  }

  const DataOptions& data_;
  LabeledTexts read_;
};

}  // namespace

LabeledTexts read_recordings(const fs::path& path, const DataOptions& data, const fs::path& folder) {
  RecordingReader reader(data, folder);
  if (data.format == "folders") {
    const fs::path table = path / "metadata.csv", objects = path / "metadata.jsonl";
    std::error_code error;
    if (fs::is_regular_file(table, error)) {
      reader.read_table(table, "csv", true);
    } else if (fs::is_regular_file(objects, error)) {
      reader.read_objects(objects, RecordingReader::kFileName);
    } else {
      throw Error(
          path.string() + ": expected a folder with metadata.csv or metadata.jsonl, got " +
          (fs::is_directory(path, error) ? "one without"
           : fs::exists(path, error)
               ? "a file (data.format = \"tsv\", \"csv\" or \"jsonl\" reads tables of paths and texts)"
               : "nothing of this name"));
    }
    return reader.finish(path);
  }
  for (const fs::path& file : data::input_files(path)) {
    if (data.format == "jsonl")
      reader.read_objects(file, data.source_key);
    else
      reader.read_table(file, data.format, false);
  }
  return reader.finish(path);
}

}  // namespace heed
