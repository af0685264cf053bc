// The figure in lines and text: SVG and PDF.
#include <fmt/format.h>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/figure.h"
#include "plot/pdf_canvas.h"
#include "plot/svg_canvas.h"

namespace heed {
namespace {

constexpr std::size_t kMostCells = 100000;

template <class VectorCanvas>
std::string vector_figure(const AttentionPicture& picture, double width, VectorCanvas&& canvas) {
  plot::check_picture(picture);
  std::size_t cells = 0;
  for (const AttentionMap& map : picture.maps) cells += picture.along_time ? 1 : map.weights.size();
  if (cells > kMostCells) {
    throw Error(fmt::format(
        "attention picture: expected at most {} cells in an SVG or PDF, got {} (choose fewer layers, "
        "heads, queries or keys, or write PNG or HTML)",
        kMostCells, cells));
  }
  const std::vector<plot::Section> sections =
      plot::place_maps(picture, width > 0 ? width : plot::kUsualWidth, canvas);
  plot::Figure(picture, sections, canvas).draw(canvas);
  return canvas.finish();
}

}  // namespace

std::string attention_svg(const AttentionPicture& picture, const FigureStyle& style) {
  return vector_figure(picture, style.width, plot::SvgCanvas(style));
}

std::string attention_pdf(const AttentionPicture& picture, const FigureStyle& style) {
  return vector_figure(picture, style.width, plot::PdfCanvas(style.width, style.palette));
}

}  // namespace heed
