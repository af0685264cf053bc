// Tables as numbers: CSV, and NPZ, which is a ZIP archive of NPY files, stored as they are (PKWARE's
// APPNOTE.TXT).
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/utf8.h"
#include "heed/io/npy.h"
#include "heed/plot/report.h"

namespace heed {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void append_little(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string npy_of_numbers(const ReportTable& table, std::optional<double> ReportCell::*number) {
  std::string out = npy_header("<f8", fmt::format("({}, {})", table.rows.size(), table.columns.size()));
  for (const auto& row : table.cells) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const double value = i < row.size()
                               ? (row[i].*number).value_or(std::numeric_limits<double>::quiet_NaN())
                               : std::numeric_limits<double>::quiet_NaN();
      append_little(out, std::bit_cast<std::uint64_t>(value), 8);
    }
  }
  return out;
}

std::string npy_of_labels(const std::vector<std::string>& labels) {
  std::vector<std::u32string> all;
  std::size_t longest = 1;
  for (const std::string& label : labels) {
    std::u32string& characters = all.emplace_back();
    const std::string valid = replace_invalid_utf8(label);
    for (std::size_t at = 0; at < valid.size();) characters += next_character(valid, at);
    longest = std::max(longest, characters.size());
  }
  std::string out = npy_header(fmt::format("<U{}", longest), fmt::format("({},)", labels.size()));
  for (std::u32string& label : all) {
    label.resize(longest, U'\0');
    for (const char32_t character : label) append_little(out, character, 4);
  }
  return out;
}

class ZipArchive {
 public:
  void add(std::string_view name, const std::string& contents) {
    const std::size_t offset = files_.size();
    files_ += "PK\x03\x04";
    append_entry(files_, name, contents);
    files_ += name;
    files_ += contents;
    directory_ += "PK\x01\x02";
    append_little(directory_, 20, 2);  // made by version 2.0
    append_entry(directory_, name, contents);
    directory_.append(10, '\0');  // comment, disk, attributes
    append_little(directory_, offset, 4);
    directory_ += name;
    ++count_;
  }
  std::string finish() const {
    std::string out = files_ + directory_ + "PK\x05\x06";
    append_little(out, 0, 4);  // disks
    append_little(out, count_, 2);
    append_little(out, count_, 2);
    append_little(out, directory_.size(), 4);
    append_little(out, files_.size(), 4);
    append_little(out, 0, 2);  // comment
    return out;
  }

 private:
  static void append_entry(std::string& out, std::string_view name, const std::string& contents) {
    append_little(out, 20, 2);    // version that is needed
    append_little(out, 0, 4);     // flags, method
    append_little(out, 0, 2);     // time
    append_little(out, 0x21, 2);  // date: 1980-01-01
    append_little(
        out, crc32(0, reinterpret_cast<const Bytef*>(contents.data()), static_cast<uInt>(contents.size())),
        4);
    append_little(out, contents.size(), 4);
    append_little(out, contents.size(), 4);
    append_little(out, name.size(), 2);
    append_little(out, 0, 2);  // extra field
  }

  std::string files_, directory_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::string table_csv(const ReportTable& table) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.9g}", *value) : std::string();
  };
  std::string out =
      csv_field(table.rows_title.empty() ? "row" : table.rows_title) + ",column,value,standard_error\n";
  for (std::size_t row = 0; row < table.cells.size(); ++row) {
    for (std::size_t column = 0; column < table.cells[row].size(); ++column) {
      const ReportCell& cell = table.cells[row][column];
      if (!cell.value) continue;
      out += fmt::format("{},{},{},{}\n", csv_field(table.rows[row]), csv_field(table.columns[column]),
                         number(cell.value), number(cell.error));
    }
  }
  return out;
}

std::string records_csv(const ReportValue& records, const std::vector<std::string>& members) {
  std::string out = fmt::format("{}\n", fmt::join(members, ","));
  for (const ReportValue& record : records.list()) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      out += i > 0 ? "," : "";
      const ReportValue* value = record.find(members[i]);
      if (value == nullptr) continue;
      if (const auto* truth = std::get_if<bool>(&value->content())) {
        out += *truth ? "1" : "0";
      } else {
        const std::optional<double> number = value->number();
        out += number ? fmt::format("{:.9g}", *number) : csv_field(value->text());
      }
    }
    out += '\n';
  }
  return out;
}

std::string table_npz(const ReportTable& table) {
  ZipArchive archive;
  archive.add("value.npy", npy_of_numbers(table, &ReportCell::value));
  archive.add("standard_error.npy", npy_of_numbers(table, &ReportCell::error));
  archive.add("rows.npy", npy_of_labels(table.rows));
  archive.add("columns.npy", npy_of_labels(table.columns));
  return archive.finish();
}

}  // namespace heed
