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

namespace heed {
namespace {

constexpr std::size_t kMostCells = 100000;
constexpr double kMargin = 20, kGap = 18, kCaption = 22, kSectionTitle = 26, kPanelsWidth = 960;
constexpr double kTiltCosine = 0.5, kTiltSine = 0.866;  // column labels rise at 60 degrees
constexpr int kLongestLabel = 20;

/// The maps of one kind in rows and columns of panels, with their dimensions.
struct Section {
  std::string kind;
  const AttentionTokens* tokens = nullptr;
  std::vector<std::string> rows, columns;                     // labels
  std::vector<std::vector<const AttentionMap*>> panels;       // null for a missing head
  double cell = 0, font = 0, left = 0, above = 0, right = 0;  // space for the labels beside the panels
  std::size_t panels_across = 0;

  double panel_width() const { return cell * static_cast<double>(columns.size()); }
  double panel_height() const { return cell * static_cast<double>(rows.size()); }
  double width() const {
    return left + static_cast<double>(panels_across) * (panel_width() + kGap) - kGap + right;
  }
  double height() const {
    return kSectionTitle + above + static_cast<double>(panels.size()) * (panel_height() + kCaption + kGap);
  }
};

std::vector<std::string> labels_of(const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (const std::string& token : tokens)
    labels.push_back(inspect::shorten(inspect::visible(token), kLongestLabel));
  return labels;
}

/// Estimates the width of the widest label in pixels from an average character: SVG cannot measure text.
double label_room(const std::vector<std::string>& labels, double font) {
  int columns = 0;
  for (const std::string& label : labels) columns = std::max(columns, display_width(label));
  return 0.6 * font * columns + 8;
}

template <typename T>
std::size_t index_of(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) return static_cast<std::size_t>(found - values.begin());
  values.push_back(value);
  return values.size() - 1;
}

/// Returns the widest cell with which `across` panels of `keys` columns fit the page.
double cell_for(std::size_t across, std::size_t keys, double largest) {
  const double panel = (kPanelsWidth - kGap * static_cast<double>(across - 1)) / static_cast<double>(across);
  return std::clamp(std::floor(panel / static_cast<double>(keys)), 3.0, largest);
}

void place_panels(Section& section, const std::vector<const AttentionMap*>& maps) {
  std::vector<std::int64_t> layers, heads;
  for (const AttentionMap* map : maps) {
    index_of(layers, map->layer);
    index_of(heads, map->head);
  }
  if (layers.size() > 1 && maps.size() <= layers.size() * heads.size()) {
    section.panels.assign(layers.size(), std::vector<const AttentionMap*>(heads.size(), nullptr));
    for (const AttentionMap* map : maps) {
      section.panels[index_of(layers, map->layer)][index_of(heads, map->head)] = map;
    }
    return;
  }
  // Four panels per row, unless the cells of a longer sentence would be too small for labels.
  std::size_t across = std::min<std::size_t>(maps.size(), 4);
  while (across > 1 && cell_for(across, section.columns.size(), 30) < 13) --across;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (i % across == 0) section.panels.emplace_back();
    section.panels.back().push_back(maps[i]);
  }
}

Section make_section(const AttentionPicture& picture, const std::string& kind) {
  Section section;
  section.kind = kind;
  section.tokens = &picture.tokens.find(kind)->second;
  section.rows = labels_of(section.tokens->queries);
  section.columns = labels_of(section.tokens->keys);
  std::vector<const AttentionMap*> maps;
  for (const AttentionMap& map : picture.maps) {
    if (map.kind == kind) maps.push_back(&map);
  }
  place_panels(section, maps);
  for (const auto& row : section.panels) section.panels_across = std::max(section.panels_across, row.size());
  section.cell = cell_for(section.panels_across, section.columns.size(), maps.size() == 1 ? 34 : 26);
  section.font = std::clamp(section.cell * 0.62, 8.0, 14.0);
  section.left = label_room(section.rows, section.font);
  section.above = label_room(section.columns, section.font) * kTiltSine + section.font * 0.5;
  section.right = std::max(0.0, label_room(section.columns, section.font) * kTiltCosine - section.cell / 2);
  return section;
}

class SvgWriter {
 public:
  explicit SvgWriter(const AttentionPicture& picture)
      : picture_(picture), largest_(inspect::largest_weight(picture)) {
    std::vector<std::string> kinds;
    for (const AttentionMap& map : picture.maps) index_of(kinds, map.kind);
    for (const std::string& kind : kinds) sections_.push_back(make_section(picture, kind));
  }

  std::string write() {
    const double title = picture_.title.empty() ? 0 : 34;
    double width = 300, height = kMargin + title;
    for (const Section& section : sections_) {
      width = std::max(width, section.width() + 2 * kMargin);
      height += section.height();
    }
    width = std::max(width, 9.5 * display_width(inspect::visible(picture_.title)) + 2 * kMargin);
    height += 30 + kMargin / 2;
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', sans-serif\" fill=\"#222\">\n",
        std::ceil(width), std::ceil(height));
    put("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    if (title > 0) {
      put("<text x=\"{}\" y=\"{}\" font-size=\"16\" font-weight=\"600\">{}</text>\n", kMargin, kMargin + 14,
          inspect::escape_markup(inspect::visible(picture_.title)));
    }
    double y = kMargin + title;
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
        inspect::escape_markup(inspect::kind_title(section.kind)));
    for (std::size_t r = 0; r < section.panels.size(); ++r) {
      const double y = top + kSectionTitle + section.above +
                       static_cast<double>(r) * (section.panel_height() + kCaption + kGap);
      write_row_labels(section, y);
      for (std::size_t c = 0; c < section.panels[r].size(); ++c) {
        if (section.panels[r][c] == nullptr) continue;
        const double x = kMargin + section.left + static_cast<double>(c) * (section.panel_width() + kGap);
        if (r == 0) write_column_labels(section, x, y);
        write_panel(section, *section.panels[r][c], x, y);
      }
    }
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
        const std::string fill = std::isfinite(weight)
                                     ? inspect::hex(inspect::shade(static_cast<double>(weight / largest_)))
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
        left + section.panel_width() / 2, top + section.panel_height() + 16, inspect::map_title(map));
  }

  static std::string token(const std::vector<std::string>& tokens, std::int64_t index) {
    return inspect::escape_markup(inspect::visible(tokens[static_cast<std::size_t>(index)]));
  }

  void write_scale(double top) {
    constexpr int kStops = 8, kWidth = 160;
    put("<defs><linearGradient id=\"scale\">");
    for (int i = 0; i <= kStops; ++i) {
      const double at = static_cast<double>(i) / kStops;
      put("<stop offset=\"{:g}\" stop-color=\"{}\"/>", at, inspect::hex(inspect::shade(at)));
    }
    put("</linearGradient></defs>\n<g font-size=\"11\" fill=\"#555\">\n");
    put("<text x=\"{}\" y=\"{:.1f}\">0</text>\n", kMargin, top + 10);
    put("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"11\" fill=\"url(#scale)\" stroke=\"#c4c4c4\"/>\n",
        kMargin + 12, top, kWidth);
    put("<text x=\"{}\" y=\"{:.1f}\">{:.2g} &#160; rows: queries, columns: keys</text>\n</g>\n",
        kMargin + 18 + kWidth, top + 10, largest_);
  }

  const AttentionPicture& picture_;
  float largest_;
  std::vector<Section> sections_;
  std::string out_;
};

}  // namespace

std::string attention_svg(const AttentionPicture& picture) {
  inspect::check_picture(picture);
  std::size_t cells = 0;
  for (const AttentionMap& map : picture.maps) cells += map.weights.size();
  if (cells > kMostCells) {
    throw Error(
        fmt::format("attention picture: expected at most {} cells in an SVG, got {} (choose fewer layers or "
                    "heads, or write HTML)",
                    kMostCells, cells));
  }
  return SvgWriter(picture).write();
}

}  // namespace heed
