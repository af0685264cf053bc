// The SVG figure: one section per kind and measure, each a grid of maps with one row per layer and one column
// per head (a single layer's heads wrap). Maps of a kind share their tokens, so only the outer maps have
// labels. Each measure has its own scale of colours, and its legend.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "heed/error.h"
#include "heed/inspect/picture.h"
#include "heed/text/unicode.h"
#include "inspect/colour.h"
#include "inspect/labels.h"
#include "inspect/panels.h"

namespace heed {
namespace {

using inspect::Section;

constexpr std::size_t kMostCells = 100000;
constexpr double kMargin = 20, kUsualWidth = 960, kTitleLine = 20;
constexpr double kBarWidth = 160, kLegendLine = 18, kLegendCharacter = 6.4, kTitleCharacter = 7.3;
constexpr double kCaptionCharacter = 6.4;
constexpr std::size_t kTitleLines = 4;
constexpr const char* kAxes = "rows: queries, columns: keys";

class SvgWriter {
 public:
  SvgWriter(const AttentionPicture& picture, const FigureStyle& style)
      : picture_(picture),
        style_(style),
        scales_(inspect::measure_scales(picture)),
        sections_(inspect::place_maps(picture, style.width > 0 ? style.width : kUsualWidth)) {}

  std::string write() {
    double width = 300, height = kMargin;
    for (const Section& section : sections_) {
      width = std::max({width, section.width() + 2 * kMargin,
                        kTitleCharacter * display_width(section_title(section)) + 2 * kMargin});
      height += section.height();
    }
    for (const inspect::MeasureScale& scale : scales_)
      width = std::max(width, kBarWidth + 80 + kLegendCharacter * display_width(legend_text(scale)));
    std::vector<std::string> title;
    if (!picture_.title.empty()) {
      const int longest = std::max(30, static_cast<int>((width - 2 * kMargin) / 9.5));
      title = inspect::wrap(inspect::visible(picture_.title), longest, kTitleLines);
      height += 14 + kTitleLine * static_cast<double>(title.size());
    }
    height += 12 + kLegendLine * static_cast<double>(scales_.size() + 1) + kMargin / 2;
    width = std::ceil(width);
    height = std::ceil(height);
    const double scale = style_.width > 0 ? style_.width / width : 1;
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{2:.6g}\" height=\"{3:.6g}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', sans-serif\" fill=\"#222\">\n",
        width, height, width * scale, height * scale);
    put("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    double y = kMargin;
    for (const std::string& line : title) {
      put("<text x=\"{}\" y=\"{}\" font-size=\"16\" font-weight=\"600\">{}</text>\n", kMargin, y + 14,
          inspect::escape_markup(line));
      y += kTitleLine;
    }
    if (!title.empty()) y += 14;
    for (const Section& section : sections_) {
      write_section(section, y);
      y += section.height();
    }
    y += 6;
    for (std::size_t i = 0; i < scales_.size(); ++i, y += kLegendLine) write_scale(i, y);
    put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"11\" fill=\"#555\">{}</text>\n", kMargin, y + 10, kAxes);
    return out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void write_section(const Section& section, double top) {
    put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"13\" fill=\"#555\">{}</text>\n", kMargin, top + 12,
        inspect::escape_markup(section_title(section)));
    for (std::size_t r = 0; r < section.panels.size(); ++r) {
      const double y =
          top + inspect::kSectionTitle + section.above +
          static_cast<double>(r) * (section.panel_height() + inspect::kPanelCaption + inspect::kPanelGap);
      write_row_labels(section, y);
      for (std::size_t c = 0; c < section.panels[r].size(); ++c) {
        if (section.panels[r][c] == nullptr) continue;
        const double x =
            kMargin + section.left + static_cast<double>(c) * (section.panel_width() + inspect::kPanelGap);
        if (r == 0) write_column_labels(section, x, y);
        write_panel(section, *section.panels[r][c], x, y);
      }
    }
  }

  /// The kind, and the measure unless the figure has weights alone.
  std::string section_title(const Section& section) const {
    if (scales_.size() == 1 && section.measure == "weights") return inspect::kind_title(section.kind);
    return inspect::kind_title(section.kind) + ", " + inspect::measure_title(section.measure);
  }

  /// In few characters where panels are too narrow for the whole.
  static std::string caption(const Section& section, const AttentionMap& map) {
    const std::string whole = inspect::head_title(map);
    const bool fits = section.panels_across == 1 ||
                      kCaptionCharacter * display_width(whole) <= section.panel_width() + inspect::kPanelGap;
    return fits ? whole : inspect::short_title(map);
  }

  /// If cells are smaller than their labels, only every n-th is labelled.
  static std::size_t label_step(const Section& section) {
    return static_cast<std::size_t>(std::max(1.0, std::ceil((section.font + 1) / section.cell)));
  }

  void write_row_labels(const Section& section, double top) {
    put("<g font-size=\"{:.1f}\" text-anchor=\"end\">\n", section.font);
    for (std::size_t i = 0; i < section.rows.size(); i += label_step(section)) {
      const double y = top + (static_cast<double>(i) + 0.5) * section.cell + section.font * 0.35;
      put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kMargin + section.left - 6, y,
          inspect::escape_markup(section.rows[i]));
    }
    put("</g>\n");
  }

  void write_column_labels(const Section& section, double left, double top) {
    put("<g font-size=\"{:.1f}\">\n", section.font);
    for (std::size_t i = 0; i < section.columns.size(); i += label_step(section)) {
      const double x = left + (static_cast<double>(i) + 0.5) * section.cell + section.font * 0.3;
      put("<text transform=\"translate({:.1f} {:.1f}) rotate(-60)\">{}</text>\n", x, top - 5,
          inspect::escape_markup(section.columns[i]));
    }
    put("</g>\n");
  }

  void write_panel(const Section& section, const AttentionMap& map, double left, double top) {
    const double gap = section.cell >= 8 ? 1 : 0, size = section.cell - gap;
    const float largest = inspect::largest_of(scales_, map.measure);
    put("<g transform=\"translate({:.1f} {:.1f})\" shape-rendering=\"crispEdges\">\n", left, top);
    for (std::int64_t query = 0; query < map.queries; ++query) {
      for (std::int64_t key = 0; key < map.keys; ++key) {
        const float weight = map.weights[static_cast<std::size_t>(query * map.keys + key)];
        const std::string fill =
            std::isfinite(weight)
                ? inspect::hex(inspect::shade(static_cast<double>(weight / largest), style_.palette))
                : "#ccc";
        put("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\"><title>{} → {}: "
            "{:.3f}</title>"
            "</rect>\n",
            static_cast<double>(key) * section.cell, static_cast<double>(query) * section.cell, size, size,
            fill, token(section.tokens->queries, query), token(section.tokens->keys, key), weight);
      }
    }
    put("<rect x=\"-1.5\" y=\"-1.5\" width=\"{:g}\" height=\"{:g}\" fill=\"none\" "
        "stroke=\"#c4c4c4\"/>\n</g>\n",
        section.panel_width() + 3 - gap, section.panel_height() + 3 - gap);
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\" fill=\"#555\" text-anchor=\"middle\">{}</text>\n",
        left + section.panel_width() / 2, top + section.panel_height() + 16,
        inspect::escape_markup(caption(section, map)));
  }

  static std::string token(const std::vector<std::string>& tokens, std::int64_t index) {
    return inspect::escape_markup(inspect::visible(tokens[static_cast<std::size_t>(index)]));
  }

  std::string legend_text(const inspect::MeasureScale& scale) const {
    const std::string largest = fmt::format("{:.2g}", scale.largest);
    return scales_.size() > 1 ? largest + " \u00A0" + inspect::measure_title(scale.measure) : largest;
  }

  /// A bar of colours from 0, or where there are negative numbers from the largest magnitude below it.
  void write_scale(std::size_t index, double top) {
    constexpr int kStops = 8;
    const inspect::MeasureScale& scale = scales_[index];
    const double first = scale.negative ? -1 : 0;
    put("<defs><linearGradient id=\"scale{}\">", index);
    for (int i = 0; i <= kStops; ++i) {
      const double at = static_cast<double>(i) / kStops;
      put("<stop offset=\"{:g}\" stop-color=\"{}\"/>", at,
          inspect::hex(inspect::shade(first + (1 - first) * at, style_.palette)));
    }
    const std::string low = scale.negative ? fmt::format("{:.2g}", -scale.largest) : "0";
    const double bar = kMargin + 6 + kLegendCharacter * static_cast<double>(low.size());
    put("</linearGradient></defs>\n<g font-size=\"11\" fill=\"#555\">\n");
    put("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", kMargin, top + 10, low);
    put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"11\" fill=\"url(#scale{})\" "
        "stroke=\"#c4c4c4\"/>\n",
        bar, top, kBarWidth, index);
    put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n</g>\n", bar + 6 + kBarWidth, top + 10,
        inspect::escape_markup(legend_text(scale)));
  }

  const AttentionPicture& picture_;
  FigureStyle style_;
  std::vector<inspect::MeasureScale> scales_;
  std::vector<Section> sections_;
  std::string out_;
};

}  // namespace

std::string attention_svg(const AttentionPicture& picture, const FigureStyle& style) {
  inspect::check_picture(picture);
  std::size_t cells = 0;
  for (const AttentionMap& map : picture.maps) cells += map.weights.size();
  if (cells > kMostCells) {
    throw Error(
        fmt::format("attention picture: expected at most {} cells in an SVG, got {} (choose fewer layers, "
                    "heads, queries or keys, or write PNG or HTML)",
                    kMostCells, cells));
  }
  return SvgWriter(picture, style).write();
}

}  // namespace heed
