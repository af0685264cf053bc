// The SVG figure.
#include <fmt/format.h>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/figure.h"
#include "plot/svg_canvas.h"

namespace heed {
namespace {

constexpr std::size_t kMostCells = 100000;

}  // namespace

std::string attention_svg(const AttentionPicture& picture, const FigureStyle& style) {
  plot::check_picture(picture);
  std::size_t cells = 0;
  for (const AttentionMap& map : picture.maps) cells += picture.along_time ? 1 : map.weights.size();
  if (cells > kMostCells) {
    throw Error(
        fmt::format("attention picture: expected at most {} cells in an SVG, got {} (choose fewer layers, "
                    "heads, queries or keys, or write PNG or HTML)",
                    kMostCells, cells));
  }
  plot::SvgCanvas canvas(style);
  const double width = style.width > 0 ? style.width : plot::kUsualWidth;
  const std::vector<plot::Section> sections = plot::place_maps(picture, width, canvas);
  plot::Figure(picture, sections, canvas).draw(canvas);
  return canvas.finish();
}

}  // namespace heed
