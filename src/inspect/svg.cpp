// The SVG figure: one section per kind, each a grid of maps with one row per layer and one column per head (a
// single layer's heads wrap). Maps of a kind share their tokens, so only the outer maps have labels.
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
constexpr std::size_t kTitleLines = 4;

class SvgWriter {
 public:
  SvgWriter(const AttentionPicture& picture, const FigureStyle& style)
      : picture_(picture),
        style_(style),
        largest_(inspect::largest_weight(picture)),
        sections_(inspect::place_maps(picture, style.width > 0 ? style.width : kUsualWidth)) {}

  std::string write() {
    double width = 300, height = kMargin;
    for (const Section& section : sections_) {
      width = std::max(width, section.width() + 2 * kMargin);
      height += section.height();
    }
    std::vector<std::string> title;
    if (!picture_.title.empty()) {
      const int longest = std::max(30, static_cast<int>((width - 2 * kMargin) / 9.5));
      title = inspect::wrap(inspect::visible(picture_.title), longest, kTitleLines);
      height += 14 + kTitleLine * static_cast<double>(title.size());
    }
    height += 30 + kMargin / 2;
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
    write_scale(y + 6);
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

  /// The kind, and the measure where all maps have one.
  static std::string section_title(const Section& section) {
    const std::string measure = inspect::measure_title(*section.panels.front().front());
    if (!has_one_measure(section) || measure.empty()) return inspect::kind_title(section.kind);
    return inspect::kind_title(section.kind) + ", " + measure;
  }

  static bool has_one_measure(const Section& section) {
    for (const auto& row : section.panels) {
      for (const AttentionMap* map : row) {
        if (map != nullptr && map->measure != section.panels.front().front()->measure) return false;
      }
    }
    return true;
  }

  /// Shortened to about the width of a panel.
  static std::string caption(const Section& section, const AttentionMap& map) {
    const std::string whole = has_one_measure(section) ? inspect::head_title(map) : inspect::map_title(map);
    return inspect::shorten(whole, std::max(16, static_cast<int>((section.panel_width() + 18) / 6.2)));
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
    put("<g transform=\"translate({:.1f} {:.1f})\" shape-rendering=\"crispEdges\">\n", left, top);
    for (std::int64_t query = 0; query < map.queries; ++query) {
      for (std::int64_t key = 0; key < map.keys; ++key) {
        const float weight = map.weights[static_cast<std::size_t>(query * map.keys + key)];
        const std::string fill =
            std::isfinite(weight)
                ? inspect::hex(inspect::shade(static_cast<double>(weight / largest_), style_.palette))
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

  void write_scale(double top) {
    constexpr int kStops = 8, kWidth = 160;
    put("<defs><linearGradient id=\"scale\">");
    for (int i = 0; i <= kStops; ++i) {
      const double at = static_cast<double>(i) / kStops;
      put("<stop offset=\"{:g}\" stop-color=\"{}\"/>", at, inspect::hex(inspect::shade(at, style_.palette)));
    }
    put("</linearGradient></defs>\n<g font-size=\"11\" fill=\"#555\">\n");
    put("<text x=\"{}\" y=\"{:.1f}\">0</text>\n", kMargin, top + 10);
    put("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"11\" fill=\"url(#scale)\" stroke=\"#c4c4c4\"/>\n",
        kMargin + 12, top, kWidth);
    put("<text x=\"{}\" y=\"{:.1f}\">{:.2g} &#160; rows: queries, columns: keys</text>\n</g>\n",
        kMargin + 18 + kWidth, top + 10, largest_);
  }

  const AttentionPicture& picture_;
  FigureStyle style_;
  float largest_;
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
