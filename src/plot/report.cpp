// Values and tables of a report, as text and as JSON.
#include "heed/plot/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/text/unicode.h"
#include "plot/color.h"
#include "plot/labels.h"

namespace heed {
namespace {

std::string shaded_text(const std::string& text, double shade, const TerminalStyle& style) {
  const plot::Rgb color =
      std::isfinite(shade) ? plot::terminal_shade(shade, style.light) : plot::cell_color(shade);
  const int ink = plot::takes_dark_text(color) ? 30 : 97;
  return fmt::format("\x1b[{};48;2;{};{};{}m{}\x1b[0m", ink, color.r, color.g, color.b, text);
}

// The legend of a table whose cells are shaded.
std::string whole_legend(const ReportTable& table) {
  if (table.shade_legend.empty()) return table.legend;
  return table.legend + (table.legend.empty() ? "" : "; ") + "shade: " + table.shade_legend;
}

// A title or legend in lines of at most `width` columns (0: in one), with a line end.
std::string wrapped(const std::string& text, int width) {
  if (text.empty()) return "";
  const std::string shown = plot::visible(text);
  if (width == 0) return shown + "\n";
  std::string lines;
  for (const std::string& line : plot::wrap(shown, width, shown.size())) lines += line + "\n";
  return lines;
}

// The column after those, from `first` on, that fit beside the labels of the rows: at least one.
std::size_t end_of_block(const std::vector<int>& widths, std::size_t first, int width) {
  std::size_t end = first;
  for (int used = widths.front(); end < widths.size(); ++end) {
    used += 2 + widths[end];
    if (width > 0 && used > width && end > first) break;
  }
  return end;
}

void write_value(JsonWriter& json, const ReportValue& value) {
  const auto& content = value.content();
  if (const auto* list = std::get_if<ReportValue::List>(&content)) {
    json.begin_array();
    for (const ReportValue& element : *list) write_value(json, element);
    json.end_array();
  } else if (const auto* object = std::get_if<ReportValue::Object>(&content)) {
    json.begin_object();
    for (const auto& [name, member] : *object) {
      json.key(name);
      write_value(json, member);
    }
    json.end_object();
  } else if (const auto* text = std::get_if<std::string>(&content)) {
    json.value(*text);
  } else if (const auto* number = std::get_if<double>(&content)) {
    json.value(*number);
  } else if (const auto* whole = std::get_if<std::int64_t>(&content)) {
    json.value(*whole);
  } else if (const auto* truth = std::get_if<bool>(&content)) {
    json.value(*truth);
  } else {
    json.value(nullptr);
  }
}

// The index of a label, which is added if it is new.
std::size_t place_of(std::vector<std::string>& labels, const std::string& label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  const auto place = static_cast<std::size_t>(found - labels.begin());
  if (found == labels.end()) labels.push_back(label);
  return place;
}

std::string formatted(const std::string& format, const ReportValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.content()))
    return fmt::format(fmt::runtime(format), *whole);
  const auto number = value.number();
  return number ? fmt::format(fmt::runtime(format), *number) : value.text();
}

}  // namespace

ReportValue& ReportValue::add(std::string name, ReportValue value) {
  if (std::holds_alternative<std::monostate>(content_)) content_ = Object();
  std::get<Object>(content_).emplace_back(std::move(name), std::move(value));
  return *this;
}

ReportValue& ReportValue::push(ReportValue value) {
  if (std::holds_alternative<std::monostate>(content_)) content_ = List();
  return std::get<List>(content_).emplace_back(std::move(value));
}

const ReportValue* ReportValue::find(std::string_view name) const {
  const auto* object = std::get_if<Object>(&content_);
  if (object == nullptr) return nullptr;
  const auto found =
      std::find_if(object->begin(), object->end(), [&](const auto& member) { return member.first == name; });
  return found == object->end() ? nullptr : &found->second;
}

const ReportValue& ReportValue::at(std::string_view name) const {
  if (const ReportValue* member = find(name)) return *member;
  throw Error(fmt::format("report: expected a member {}, got none", name));
}

const ReportValue::List& ReportValue::list() const {
  static const List none;
  const auto* list = std::get_if<List>(&content_);
  return list == nullptr ? none : *list;
}

std::optional<double> ReportValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&content_)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&content_);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::string ReportValue::text() const {
  const auto* text = std::get_if<std::string>(&content_);
  return text == nullptr ? "" : *text;
}

ReportCell& ReportTable::cell(const std::string& row, const std::string& column) {
  const std::size_t r = place_of(rows, row), c = place_of(columns, column);
  cells.resize(rows.size());
  if (cells[r].size() <= c) cells[r].resize(c + 1);
  return cells[r][c];
}

void ReportTable::fill_up() {
  cells.resize(rows.size());
  for (auto& row : cells) row.resize(columns.size());
}

double largest_magnitude(const ReportValue& records, std::string_view member) {
  double largest = 0;
  for (const ReportValue& record : records.list()) {
    const ReportValue* value = record.find(member);
    if (value != nullptr) largest = std::max(largest, std::abs(value->number().value_or(0)));
  }
  return largest;
}

void add_column(ReportTable& table, const ReportValue& records, const ReportColumn& column) {
  const std::string& member = column.member.empty() ? column.title : column.member;
  const double largest = column.shade == ReportShade::share ? largest_magnitude(records, member) : 0;
  table.fill_up();
  table.columns.push_back(column.title);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    ReportCell& cell = table.cells[row].emplace_back();
    const ReportValue* value = row < records.list().size() ? records.list()[row].find(member) : nullptr;
    if (value == nullptr) continue;
    cell.text = formatted(column.format, *value);
    cell.value = value->number();
    if (!cell.value) continue;
    if (column.shade != ReportShade::none) cell.shade = largest > 0 ? *cell.value / largest : *cell.value;
    if (!column.tooltip.empty())
      cell.tooltip =
          fmt::format("{} {}, {}: {:.5f}", column.tooltip, table.rows[row], column.title, *cell.value);
    const ReportValue* error = column.error.empty() ? nullptr : records.list()[row].find(column.error);
    if (error == nullptr) continue;
    cell.error = error->number();
    cell.text += " ± " + formatted(column.format, *error);
  }
}

std::string report_text(const Report& report, const TerminalStyle& style) {
  std::string text;
  for (const ReportTable& table : report.tables)
    text += (text.empty() ? "" : "\n") + table_text(table, style);
  return text;
}

std::string report_json(const Report& report) {
  JsonWriter json;
  write_value(json, report.found);
  return json.text();
}

std::string report_file(const Report& report, std::string_view ending, const TableStyle& style) {
  const ReportTable& table = report.shown();
  if (ending == ".csv") return report.numbers ? *report.numbers : table_csv(table);
  if (ending == ".npz") return table_npz(table);
  if (ending == ".png") return table_png(table, style);
  return ending == ".pdf" ? table_pdf(table, style) : table_svg(table, style);
}

std::string table_text(const ReportTable& table, const TerminalStyle& style) {
  std::vector<std::vector<std::string>> lines{{table.rows_title}};
  for (const std::string& column : table.columns) lines.front().push_back(plot::cell_label(column));
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    lines.push_back({plot::cell_label(table.rows[row])});
    for (const ReportCell& cell : table.cells[row]) lines.back().push_back(plot::cell_label(cell.text));
  }
  std::vector<int> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string text = wrapped(table.title, style.width);
  for (std::size_t first = 1, end = first; first == 1 || first < widths.size(); first = end) {
    end = end_of_block(widths, first, style.width);
    if (first > 1) text += '\n';
    for (std::size_t row = 0; row < lines.size(); ++row) {
      text += plot::pad_left(lines[row].front(), widths.front());
      for (std::size_t i = first; i < std::min(end, lines[row].size()); ++i) {
        const std::string padded = plot::pad_left(lines[row][i], widths[i]);
        text += "  " + (style.color && row > 0 ? shaded_text(padded, table.cells[row - 1][i - 1].shade, style)
                                               : padded);
      }
      text += '\n';
    }
  }
  return text + wrapped(style.color ? whole_legend(table) : table.legend, style.width);
}

}  // namespace heed
