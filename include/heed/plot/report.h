// The result of an analysis, filled once: values under the names that JSON has for them, and tables of shaded
// cells. It is shown as text for the terminal, as JSON, as numbers in CSV and NPZ, and as a figure.
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

namespace HEED_API heed {

/// What JSON can say: nothing, a truth, a number, a text, a list, or an object, whose members keep their
/// order. Threads: as values of the standard library.
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

  /// Adds a member to an object, or to nothing, which becomes one; names are not checked for repetition.
  ReportValue& add(std::string name, ReportValue value);
  /// Adds an element to a list, or to nothing, which becomes one.
  ReportValue& push(ReportValue value);

  /// The member of an object; null if it has none of that name, or is none.
  const ReportValue* find(std::string_view name) const;
  /// The same. Throws Error if there is none.
  const ReportValue& at(std::string_view name) const;
  /// The elements of a list; none of anything else.
  const List& list() const;
  /// The number; nothing of anything else.
  std::optional<double> number() const;
  /// The text; empty of anything else.
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
  std::optional<double> value = {};  ///< the number itself, where the cell is one
  std::optional<double> error = {};  ///< its standard error, where it is a mean
};

struct ReportTable {
  std::string title = {}, rows_title = {}, legend = {};
  std::string shade_legend = {};                     ///< what the shades mean, where there are any
  std::string full_shade = "1";                      ///< of a figure: the number that shade 1 stands for
  std::string subtitle = {};                         ///< of a figure: the model and the text
  std::vector<std::string> rows = {}, columns = {};  ///< labels
  std::vector<std::vector<ReportCell>> cells = {};   ///< [rows, columns]

  /// The cell of a row and a column of these labels; both are added if the table has none such.
  ReportCell& cell(const std::string& row, const std::string& column);
  /// Gives each row as many cells as there are columns.
  void fill_up();
};

/// How the shade of a number is chosen: it itself, or its part of the largest magnitude in the column.
enum class ReportShade : std::uint8_t { none, value, share };

/// A column that is made of a member of records. A record without the member has an empty cell.
struct ReportColumn {
  std::string title;
  std::string member = {};        ///< empty: that of the title
  std::string format = "{:.3f}";  ///< as std::format has it
  ReportShade shade = ReportShade::none;
  std::string error = {};    ///< the member of its standard error, which records may have
  std::string tooltip = {};  ///< what the row is: `head` for `head 0.1, TITLE: 0.12345`; empty: no tooltip
};
/// Adds the column of `records`, one for each row from the first on.
void add_column(ReportTable& table, const ReportValue& records, const ReportColumn& column);
/// The largest magnitude of a member of records; 0 without any.
double largest_magnitude(const ReportValue& records, std::string_view member);

struct Report {
  ReportValue found = {};                   ///< what JSON has
  std::vector<ReportTable> tables = {};     ///< what the terminal has
  std::optional<ReportTable> figure = {};   ///< what files have, where it is not the first table
  std::optional<std::string> numbers = {};  ///< what CSV has, where it is not the numbers of `figure`
  bool finite = true;                       ///< whether the model's numbers are
  std::vector<std::string> warnings = {};

  /// What a figure is drawn of.
  ReportTable& shown() { return figure ? *figure : tables.front(); }
  const ReportTable& shown() const { return figure ? *figure : tables.front(); }
};

/// All tables, one after the other.
std::string report_text(const Report& report, bool color = false);
/// One line of JSON.
std::string report_json(const Report& report);

/// The title, columns separated by two spaces, each as wide as its widest text, with the texts of one line
/// per row, and the legend. `color` shades the cells as ANSI terminals do.
std::string table_text(const ReportTable& table, bool color = false);

/// How a table is drawn.
struct TableStyle {
  double width = 0;       ///< in pixels, 96 to the inch; 0: as much as the table takes
  double resolution = 2;  ///< of PNG: its pixels to each of these
};

/// What a file with this ending has: `.svg`, `.pdf` and `.png` the figure, `.csv` and `.npz` its numbers.
/// Throws as the functions below.
std::string report_file(const Report& report, std::string_view ending, const TableStyle& style = {});

/// One self-contained figure: the table under its title and subtitle, over a scale of its colors and its
/// legend. A table that is wider than `width` gets smaller text. Throws Error if that were below 5 points, if
/// there are more than 100,000 cells, or no cell.
std::string table_svg(const ReportTable& table, const TableStyle& style = {});

/// The same as one page of PDF, without tooltips. Also throws Error if the system has no font.
std::string table_pdf(const ReportTable& table, const TableStyle& style = {});

/// The same as PNG, without tooltips, which says how many of its pixels are an inch if `width` is given. Also
/// throws Error if there were more than 100 million pixels, or if the system has no font.
std::string table_png(const ReportTable& table, const TableStyle& style = {});

/// The numbers of a table, a line for each: row, column, value and standard error, under a header with the
/// table's titles. Fields with commas, quotes or line breaks are quoted (RFC 4180).
std::string table_csv(const ReportTable& table);

/// These members of records, a line for each record, under a header: empty where a record has none.
std::string records_csv(const ReportValue& records, const std::vector<std::string>& members);

/// The same as an NPZ file: `value` and `standard_error`, f64 [rows, columns], NaN where there is none, and
/// the labels `rows` and `columns` as Unicode strings.
std::string table_npz(const ReportTable& table);

}  // namespace heed
