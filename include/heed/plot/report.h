// The result of an analysis: values with their names in JSON, and tables of shaded cells. It is written as
// text for the terminal, as JSON, as numbers in CSV and NPZ, and as a figure.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heed/export.h"
#include "heed/plot/picture.h"

namespace HEED_API heed {

/// A JSON value: null, a boolean, a number, a string, a list, or an object, whose members keep their order.
/// Threads: as values of the standard library.
class ReportValue {
 public:
  using List = std::vector<ReportValue>;
  using Object = std::vector<std::pair<std::string, ReportValue>>;

  ReportValue() = default;  ///< nothing: null
  ReportValue(bool truth) : content_(truth) {}
  template <std::integral T>
  ReportValue(T number) : content_(static_cast<std::int64_t>(number)) {}
  ReportValue(double number) : content_(number) {}
  ReportValue(std::string text) : content_(std::move(text)) {}
  ReportValue(const char* text) : content_(std::string(text)) {}
  ReportValue(List list) : content_(std::move(list)) {}
  ReportValue(Object object) : content_(std::move(object)) {}
  template <class T>
  ReportValue(const std::optional<T>& maybe) {
    if (maybe) *this = ReportValue(*maybe);
  }
  template <class T>
  requires(!std::same_as<T, ReportValue> && !std::same_as<T, Object::value_type>)
      ReportValue(const std::vector<T>& list)
      : content_(List(list.begin(), list.end())) {}

  /// Adds a member to an object; null becomes an object. Repeated names are not detected.
  ReportValue& add(std::string name, ReportValue value);
  /// Adds an element to a list; null becomes a list.
  ReportValue& push(ReportValue value);

  /// The member of an object; null if there is no such member, or if this is not an object.
  const ReportValue* find(std::string_view name) const;
  /// The same. Throws Error if there is none.
  const ReportValue& at(std::string_view name) const;
  /// The elements of a list; empty for anything else.
  const List& list() const;
  /// The number; no value for anything else.
  std::optional<double> number() const;
  /// The string; empty for anything else.
  std::string text() const;

  using Content = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Object>;
  const Content& content() const { return content_; }

 private:
  Content content_;
};

struct ReportCell {
  std::string text;
  double shade = 0;  ///< from -1 (red) over 0 (white) to 1 (blue)
  std::string tooltip = {};
  std::optional<double> value = {};  ///< the number itself, if the cell is a number
  std::optional<double> error = {};  ///< its standard error, if it is a mean
};

struct ReportTable {
  std::string title = {}, rows_title = {}, legend = {};
  std::string shade_legend = {};                     ///< what the shades mean, if there are any
  std::string full_shade = "1";                      ///< for a figure: the number of shade 1
  std::string subtitle = {};                         ///< for a figure: the model and the text
  std::vector<std::string> rows = {}, columns = {};  ///< labels
  std::vector<std::vector<ReportCell>> cells = {};   ///< [rows, columns]

  /// The cell at the row and the column with these labels; missing ones are added.
  ReportCell& cell(const std::string& row, const std::string& column);
  /// Gives each row as many cells as there are columns.
  void fill_up();
};

/// The shade of a number: the number itself, or its fraction of the largest magnitude in the column.
enum class ReportShade : std::uint8_t { none, value, share };

/// A column with one member of each record. A record without the member has an empty cell.
struct ReportColumn {
  std::string title;
  std::string member = {};        ///< empty: as `title`
  std::string format = "{:.3f}";  ///< as std::format has it
  ReportShade shade = ReportShade::none;
  std::string error = {};    ///< the member with the standard error, if any
  std::string tooltip = {};  ///< the kind of row: `head` for `head 0.1, TITLE: 0.12345`; empty: no tooltip
};
/// Adds the column; record i belongs to row i.
void add_column(ReportTable& table, const ReportValue& records, const ReportColumn& column);
/// The largest magnitude of a member of records; 0 without any.
double largest_magnitude(const ReportValue& records, std::string_view member);

struct Report {
  ReportValue found = {};                   ///< the JSON output
  std::vector<ReportTable> tables = {};     ///< the terminal output
  std::optional<ReportTable> figure = {};   ///< the figure in files, if it is not the first table
  std::optional<std::string> numbers = {};  ///< the CSV output, if it is not the numbers of `figure`
  bool finite = true;                       ///< whether all numbers of the model are finite
  std::vector<std::string> warnings = {};

  /// The table that a figure shows.
  ReportTable& shown() { return figure ? *figure : tables.front(); }
  const ReportTable& shown() const { return figure ? *figure : tables.front(); }
};

/// All tables, one after the other.
std::string report_text(const Report& report, const TerminalStyle& style = {.width = 0});
/// One line of JSON.
std::string report_json(const Report& report);

/// The title, columns separated by two spaces, each as wide as its widest text, with the texts of one line
/// per row, and the legend; cells are shaded if `style` has color. Columns beyond `style.width` continue in
/// blocks below, and title and legend in further lines; 0: there is no limit.
std::string table_text(const ReportTable& table, const TerminalStyle& style = {.width = 0});

/// How a table is drawn.
struct TableStyle {
  double width = 0;       ///< in pixels, 96 to the inch; 0: as much as the table takes
  double resolution = 2;  ///< for PNG: pixels per unit of `width`
};

/// Returns the content of a file with this ending: the figure for `.svg`, `.pdf` and `.png`, its numbers for
/// `.csv` and `.npz`. Throws as the functions below.
std::string report_file(const Report& report, std::string_view ending, const TableStyle& style = {});

/// One self-contained figure: the table under its title and subtitle, over a scale of its colors and its
/// legend. A table that is wider than `width` gets smaller text. Throws Error if the text would be below 5
/// points, or if there are no cells or more than 100,000.
std::string table_svg(const ReportTable& table, const TableStyle& style = {});

/// The same as one page of PDF, without tooltips. Also throws Error if the system has no font.
std::string table_pdf(const ReportTable& table, const TableStyle& style = {});

/// The same as PNG, without tooltips. It records the resolution if `width` is given. Also throws Error for
/// more than 100 million pixels, or if the system has no font.
std::string table_png(const ReportTable& table, const TableStyle& style = {});

/// The numbers of a table, a line for each: row, column, value and standard error, under a header with the
/// table's titles. Fields with commas, quotes or line breaks are quoted (RFC 4180).
std::string table_csv(const ReportTable& table);

/// CSV of these members, one line per record, under a header; a missing member is empty.
std::string records_csv(const ReportValue& records, const std::vector<std::string>& members);

/// The same as an NPZ file: `value` and `standard_error`, f64 [rows, columns], NaN where there is none, and
/// the labels `rows` and `columns` as Unicode strings.
std::string table_npz(const ReportTable& table);

}  // namespace heed
