// A figure of attention as SVG, PDF and PNG.
#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/figure.h"
#include "plot/pdf_canvas.h"
#include "plot/pixel_canvas.h"
#include "plot/svg_canvas.h"

namespace heed {
namespace {

using plot::Figure;
using plot::kMostPixels;
using plot::PixelCanvas;
using plot::Section;

constexpr double kManyPixels = 1e7;  // from here on, speed counts more than the size of the file

constexpr std::size_t kFirstChunks = 8 + 25;  // the signature and IHDR

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// The chunk pHYs, which libpng's simplified interface does not write.
std::string resolution_chunk(double per_inch) {
  const auto per_metre = static_cast<std::uint32_t>(std::lround(per_inch / 0.0254));
  const std::string content = "pHYs" + big_endian(per_metre) + big_endian(per_metre) + '\1';
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  return big_endian(9) + content + big_endian(static_cast<std::uint32_t>(checksum));
}

/// Makes cells smaller until the sections fit in the width.
void fit_width(std::vector<Section>& sections, double width, const PixelCanvas& canvas) {
  for (Section& section : sections) {
    while (section.can_shrink() && section.width() + 2 * plot::kFigureMargin > width) section.shrink(canvas);
  }
}

/// Makes cells smaller until the figure has no more than the most pixels.
void fit_pixels(const AttentionPicture& picture, std::vector<Section>& sections, const PixelCanvas& canvas) {
  for (bool smaller = true; smaller;) {
    const Figure figure(picture, sections, canvas);
    if (figure.width() * figure.height() <= kMostPixels) return;
    smaller = false;
    for (Section& section : sections) {
      if (!section.can_shrink()) continue;
      section.shrink(canvas);
      smaller = true;
    }
  }
}

/// Returns by how much the figure is scaled up to fill `width`, and makes scaled cells whole pixels.
double fill_width(const AttentionPicture& picture, std::vector<Section>& sections, double width,
                  const PixelCanvas& canvas) {
  const double needed = Figure(picture, sections, canvas).width();
  if (needed > width) {
    throw Error(
        fmt::format("attention picture: expected a width of at least {} pixels for its maps, labels and "
                    "legends, got {:g} (choose fewer heads, keys or measures, or a larger width)",
                    needed, width));
  }
  const double scale = width / needed;
  for (Section& section : sections) {
    if (section.sound == nullptr) section.resize(std::floor(section.cell * scale) / scale, canvas);
  }
  return scale;
}

constexpr std::size_t kMostCells = 100000;

void draw_vectors(const AttentionPicture& picture, double width, plot::Canvas& canvas) {
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
}

}  // namespace

std::string encode_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& rgb,
                       double per_inch) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = PNG_FORMAT_RGB;
  if (static_cast<double>(width) * static_cast<double>(height) > kManyPixels) png.flags = PNG_IMAGE_FLAG_FAST;
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* memory = open_memstream(&bytes, &size);
  if (memory == nullptr) throw Error("PNG: cannot be written: out of memory");
  const bool written = png_image_write_to_stdio(&png, memory, 0, rgb.data(), 0, nullptr) != 0;
  const bool closed = std::fclose(memory) == 0;
  const std::unique_ptr<char, decltype(&std::free)> owner(bytes, &std::free);
  if (!written || !closed) throw Error(std::string("PNG: cannot be written: ") + png.message);
  std::string file(bytes, size);
  if (per_inch > 0) file.insert(kFirstChunks, resolution_chunk(per_inch));
  return file;
}

std::string attention_svg(const AttentionPicture& picture, const FigureStyle& style) {
  plot::SvgCanvas canvas(style);
  draw_vectors(picture, style.width, canvas);
  return canvas.finish();
}

std::string attention_pdf(const AttentionPicture& picture, const FigureStyle& style) {
  return plot::pdf_page(style.width, style.palette,
                        [&](plot::Canvas& canvas) { draw_vectors(picture, style.width, canvas); });
}

std::string attention_png(const AttentionPicture& picture, const FigureStyle& style) {
  plot::check_picture(picture);
  PixelCanvas canvas(style.palette);
  std::vector<Section> sections =
      plot::place_maps(picture, style.width > 0 ? style.width : plot::kUsualWidth, canvas);
  if (style.width > 0) fit_width(sections, style.width, canvas);
  fit_pixels(picture, sections, canvas);
  const double scale = style.width > 0 ? fill_width(picture, sections, style.width, canvas) : 1;
  const Figure figure(picture, sections, canvas);
  const double width = std::round(figure.width() * scale), height = std::round(figure.height() * scale);
  if (width * height > kMostPixels) {
    throw Error(
        fmt::format("attention picture: expected at most {:.0f} pixels, got {:.0f} x {:.0f} (choose fewer "
                    "layers, heads, queries or keys{})",
                    kMostPixels, width, height, scale > 1 ? ", or a smaller width" : ""));
  }
  canvas.set_scale(scale);
  figure.draw(canvas);
  return encode_png(canvas.width(), canvas.height(), canvas.rgb());
}

}  // namespace heed
