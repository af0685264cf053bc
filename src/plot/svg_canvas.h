// SVG markup of a figure.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "core/base64.h"
#include "plot/canvas.h"
#include "plot/color.h"
#include "plot/figure.h"
#include "plot/labels.h"

namespace heed::plot {

class SvgCanvas final : public Canvas {
 public:
  explicit SvgCanvas(const FigureStyle& style) : style_(style) {}

  std::string finish() { return out_ + "</svg>\n"; }

  void open(double width, double height) override {
    const double scale = style_.width > 0 ? style_.width / width : 1;
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{2:.6g}\" height=\"{3:.6g}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', sans-serif\" fill=\"#222\">\n",
        width, height, width * scale, height * scale);
    put("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
  }

  /// The margin, where lines start, and the baselines of the title, in bold, are whole numbers.
  void text(const PlacedText& line, const TextStyle& style) override {
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{}{}>{}</text>\n",
        style.anchor == Anchor::start ? fmt::format("{}", line.x) : fmt::format("{:.1f}", line.x),
        style.bold ? fmt::format("{}", line.y) : fmt::format("{:.1f}", line.y), style.size,
        style.bold ? " font-weight=\"600\"" : "",
        style.ink == Ink::gray    ? " fill=\"#555\""
        : style.ink == Ink::light ? " fill=\"#fff\""
                                  : "",
        style.anchor == Anchor::middle ? " text-anchor=\"middle\""
        : style.anchor == Anchor::end  ? " text-anchor=\"end\""
                                       : "",
        escape_markup(line.text));
  }

  void labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) override {
    put("<g font-size=\"{:.1f}\"{}>\n", style.size,
        style.anchor == Anchor::end ? " text-anchor=\"end\"" : "");
    for (const PlacedText& label : labels) {
      if (rise) {
        put("<text transform=\"translate({:.1f} {:.1f}) rotate(-60)\">", label.x, label.y);
      } else {
        put("<text x=\"{:.1f}\" y=\"{:.1f}\">", label.x, label.y);
      }
      put("{}</text>\n", escape_markup(label.text));
    }
    put("</g>\n");
  }

  void map(const PlacedMap& placed) override {
    const Section& section = placed.section;
    const double gap = section.image != nullptr ? 0 : gap_of(section.cell);
    put("<g transform=\"translate({:.1f} {:.1f})\" shape-rendering=\"crispEdges\">\n", placed.left,
        placed.top);
    if (section.image != nullptr) put_image(section);
    for (std::int64_t query = 0; query < placed.map.queries; ++query) {
      for (std::int64_t key = 0; key < placed.map.keys; ++key) put_cell(placed, query, key);
    }
    put("<rect x=\"-1.5\" y=\"-1.5\" width=\"{:g}\" height=\"{:g}\" fill=\"none\" "
        "stroke=\"#c4c4c4\"/>\n</g>\n",
        section.panel_width() + 3 - gap, section.panel_height() + 3 - gap);
  }

  void raster(const Pixels& pixels, const Box& box, const std::string& tooltip) override {
    put("<image x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" preserveAspectRatio=\"none\" "
        "href=\"data:image/png;base64,{}\"{}",
        box.left, box.top, box.width, box.height,
        encode_base64(encode_png(pixels.width, pixels.height, pixels.rgb)), tooltip.empty() ? "/>\n" : ">");
    if (!tooltip.empty()) put("<title>{}</title></image>\n", escape_markup(tooltip));
  }

  /// The image is stored once.
  void image(const InputImage& image, const Box& box) override {
    if (!has_image_) {
      put("<defs><image id=\"image\" width=\"{0}\" height=\"{1}\" preserveAspectRatio=\"none\" "
          "href=\"data:image/png;base64,{2}\"/></defs>\n",
          image.width, image.height, encode_base64(encode_png(image.width, image.height, image.rgb)));
      has_image_ = true;
    }
    put("<use href=\"#image\" transform=\"translate({:.1f} {:.1f}) scale({:.6g} {:.6g})\"/>\n", box.left,
        box.top, box.width / static_cast<double>(image.width),
        box.height / static_cast<double>(image.height));
  }

  void outline(const Box& box, Rgb color) override {
    put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"{}\"/>\n",
        box.left, box.top, box.width, box.height, hex(color));
  }

  void cell(const TableCell& cell, const TextStyle& style) override {
    put("<g><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>", cell.box.left,
        cell.box.top, cell.box.width, cell.box.height, hex(cell.color));
    if (!cell.text.text.empty()) text(cell.text, style);
    put("<title>{}</title></g>\n", escape_markup(cell.tooltip));
  }

  double resolution() const override { return 2; }
  Palette palette() const override { return style_.palette; }

  void legend(const Legend& legend, const TextStyle& style) override {
    constexpr int kStops = 8;
    put("<defs><linearGradient id=\"scale{}\">", legends_);
    for (int i = 0; i <= kStops; ++i) {
      const double at = static_cast<double>(i) / kStops;
      put("<stop offset=\"{:g}\" stop-color=\"{}\"/>", at,
          hex(legend.over_image
                  ? covered({255, 255, 255}, legend.first + (1 - legend.first) * at, style_.palette)
                  : shade(legend.first + (1 - legend.first) * at, style_.palette)));
    }
    put("</linearGradient></defs>\n<g font-size=\"{}\" fill=\"#555\">\n", style.size);
    put("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", legend.low.x, legend.low.y, legend.low.text);
    put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"url(#scale{})\" "
        "stroke=\"#c4c4c4\"/>\n",
        legend.left, legend.top, legend.width, kLegendBarHeight, legends_++);
    put("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n</g>\n", legend.high.x, legend.high.y,
        escape_markup(legend.high.text));
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void put_image(const Section& section) {
    image(*section.image, {0, 0, section.panel_width(), section.panel_height()});
    put("<rect width=\"{:g}\" height=\"{:g}\" fill=\"#fff\" fill-opacity=\"{}\"/>\n", section.panel_width(),
        section.panel_height(), kPale);
  }

  void put_part(const PlacedMap& placed, std::int64_t row, std::int64_t column) {
    const double cell = placed.section.cell, high = placed.section.row;
    const float weight = placed.map.weights[static_cast<std::size_t>(row * placed.map.keys + column)];
    const double share = static_cast<double>(weight / placed.largest);
    put("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\" "
        "fill-opacity=\"{:.2f}\"><title>{},{}: "
        "{:.3g}</title></rect>\n",
        static_cast<double>(column) * cell, static_cast<double>(row) * high, cell, high,
        std::isfinite(share) ? hex(shade(share, style_.palette)) : "#ccc",
        std::isfinite(share) ? density(share) : 1.0, row, column, weight);
  }

  void put_cell(const PlacedMap& placed, std::int64_t query, std::int64_t key) {
    const Section& section = placed.section;
    if (section.image != nullptr) return put_part(placed, query, key);
    const double size = section.cell - gap_of(section.cell);
    const float weight = placed.map.weights[static_cast<std::size_t>(query * placed.map.keys + key)];
    const std::string fill = std::isfinite(weight)
                                 ? hex(shade(static_cast<double>(weight / placed.largest), style_.palette))
                                 : "#ccc";
    put("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\"><title>{} → {}: "
        "{:.3f}</title>"
        "</rect>\n",
        static_cast<double>(key) * section.cell, static_cast<double>(query) * section.cell, size, size, fill,
        token(section.tokens->queries, query), token(section.tokens->keys, key), weight);
  }

  static std::string token(const std::vector<std::string>& tokens, std::int64_t index) {
    return escape_markup(visible(tokens[static_cast<std::size_t>(index)]));
  }

  FigureStyle style_;
  std::size_t legends_ = 0;
  bool has_image_ = false;
  std::string out_;
};

}  // namespace heed::plot
