// The PNG figure: the panels of the SVG figure as pixels, without text.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "heed/error.h"
#include "heed/inspect/picture.h"
#include "inspect/colour.h"
#include "inspect/labels.h"
#include "inspect/panels.h"

namespace heed {
namespace {

constexpr std::int64_t kPixelMargin = 8, kPixelGap = 8, kMostPixels = 100'000'000;

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;

  void fill(std::int64_t left, std::int64_t top, std::int64_t across, std::int64_t down,
            inspect::Rgb colour) {
    for (std::int64_t y = top; y < top + down; ++y) {
      for (std::int64_t x = left; x < left + across; ++x) {
        std::uint8_t* pixel = &rgb[static_cast<std::size_t>(3 * (y * width + x))];
        pixel[0] = colour.r;
        pixel[1] = colour.g;
        pixel[2] = colour.b;
      }
    }
  }
};

std::int64_t signed_size(std::size_t n) { return static_cast<std::int64_t>(n); }

/// Pixels of a cell: as many as fit in the width, else about those of the SVG figure.
std::int64_t cell_of(const inspect::Section& section, double width) {
  if (width <= 0) return std::max<std::int64_t>(1, std::lround(section.cell));
  const std::int64_t across = signed_size(section.panels_across), keys = signed_size(section.columns.size());
  const std::int64_t room =
      static_cast<std::int64_t>(width) - 2 * kPixelMargin - (across - 1) * kPixelGap - 2 * across;
  if (room < across * keys) {
    throw Error(fmt::format(
        "attention picture: expected a width of at least {} pixels for {} maps of {} keys side by "
        "side, got {:g} (choose fewer heads or keys, or a larger width)",
        across * keys + static_cast<std::int64_t>(width) - room, across, keys, width));
  }
  return std::min<std::int64_t>(64, room / (across * keys));
}

struct Placed {
  const inspect::Section* section;
  std::int64_t cell;
  std::int64_t panel_width() const { return cell * signed_size(section->columns.size()) + 2; }  // and a frame
  std::int64_t panel_height() const { return cell * signed_size(section->rows.size()) + 2; }
  std::int64_t width() const {
    return signed_size(section->panels_across) * (panel_width() + kPixelGap) - kPixelGap;
  }
  std::int64_t height() const { return signed_size(section->panels.size()) * (panel_height() + kPixelGap); }
};

void draw_panel(Image& image, const Placed& placed, const AttentionMap& map, std::int64_t left,
                std::int64_t top, double largest, Palette palette) {
  image.fill(left, top, placed.panel_width(), placed.panel_height(), {0xc4, 0xc4, 0xc4});
  for (std::int64_t query = 0; query < map.queries; ++query) {
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const auto weight = static_cast<double>(map.weights[static_cast<std::size_t>(query * map.keys + key)]);
      const inspect::Rgb colour =
          std::isfinite(weight) ? inspect::shade(weight / largest, palette) : inspect::Rgb{0xcc, 0xcc, 0xcc};
      image.fill(left + 1 + key * placed.cell, top + 1 + query * placed.cell, placed.cell, placed.cell,
                 colour);
    }
  }
}

}  // namespace

std::string encode_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& rgb) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = 0;
  std::string out;
  if (png_image_write_get_memory_size(png, bytes, 0, rgb.data(), 0, nullptr) != 0) {
    out.resize(bytes);
    if (png_image_write_to_memory(&png, out.data(), &bytes, 0, rgb.data(), 0, nullptr) != 0) {
      out.resize(bytes);
      return out;
    }
  }
  throw Error(std::string("PNG: cannot be written: ") + png.message);
}

std::string attention_png(const AttentionPicture& picture, const FigureStyle& style) {
  inspect::check_picture(picture);
  const std::vector<inspect::Section> sections =
      inspect::place_maps(picture, style.width > 0 ? style.width : 960);
  std::vector<Placed> placed;
  Image image;
  for (const inspect::Section& section : sections) {
    const Placed& one = placed.emplace_back(Placed{&section, cell_of(section, style.width)});
    image.width = std::max(image.width, one.width() + 2 * kPixelMargin);
    image.height += one.height();
  }
  image.height += 2 * kPixelMargin - kPixelGap;
  if (image.width > kMostPixels / image.height) {
    throw Error(
        fmt::format("attention picture: expected at most {} pixels, got {} x {} (choose fewer layers, "
                    "heads, queries or keys)",
                    kMostPixels, image.width, image.height));
  }
  image.rgb.assign(static_cast<std::size_t>(3 * image.width * image.height), 0xff);
  const std::vector<inspect::MeasureScale> scales = inspect::measure_scales(picture);
  std::int64_t top = kPixelMargin;
  for (const Placed& one : placed) {
    const auto largest = static_cast<double>(inspect::largest_of(scales, one.section->measure));
    for (const auto& row : one.section->panels) {
      std::int64_t left = kPixelMargin;
      for (const AttentionMap* map : row) {
        if (map != nullptr) draw_panel(image, one, *map, left, top, largest, style.palette);
        left += one.panel_width() + kPixelGap;
      }
      top += one.panel_height() + kPixelGap;
    }
  }
  return encode_png(image.width, image.height, image.rgb);
}

}  // namespace heed
