// Maps of the parts of an image, laid over it.
#include "plot/over_image.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/labels.h"

namespace heed {
namespace {

std::vector<std::string> numbers(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

}  // namespace

AttentionPicture over_image(const AttentionPicture& picture, std::optional<std::int64_t> query) {
  plot::check_picture(picture);
  const InputImage& image = picture.image;
  const std::int64_t parts = image.rows * image.columns;
  // The keys after those of a sound are padding, and nobody asks for what padding attends to.
  const bool is_sound = picture.sound.seconds > 0;
  AttentionPicture over;
  over.title = picture.title;
  over.image = image;
  over.sound = picture.sound;
  over.beside = picture.beside;
  over.over_image = true;
  for (const AttentionMap& map : picture.maps) {
    if (std::find(picture.beside.begin(), picture.beside.end(), map.kind) != picture.beside.end()) {
      over.maps.push_back(map);
      over.tokens[map.kind] = plot::tokens_of(picture, map);
      continue;
    }
    const std::int64_t keys = image.first + parts;
    if (image.width == 0 || (is_sound ? map.keys < keys || map.kind == "cross" : map.keys != keys)) continue;
    if (query && (*query < 0 || *query >= map.queries)) {
      throw Error("attention picture: expected a query below " + std::to_string(map.queries) + ", got " +
                  std::to_string(*query));
    }
    AttentionMap& laid = over.maps.emplace_back(map);
    laid.queries = image.rows;
    laid.keys = image.columns;
    laid.weights.assign(static_cast<std::size_t>(parts), 0.0f);
    const std::int64_t first = query.value_or(0), end = query      ? *query + 1
                                                        : is_sound ? std::min(keys, map.queries)
                                                                   : map.queries;
    for (std::int64_t part = 0; part < parts; ++part) {
      double sum = 0;
      for (std::int64_t row = first; row < end; ++row)
        sum +=
            static_cast<double>(map.weights[static_cast<std::size_t>(row * map.keys + image.first + part)]);
      const std::int64_t row = part / image.columns;
      const std::int64_t shown = image.upward ? image.rows - 1 - row : row;
      laid.weights[static_cast<std::size_t>(shown * image.columns + part % image.columns)] =
          static_cast<float>(sum / static_cast<double>(end - first));
    }
    over.tokens[map.kind] = {numbers(image.rows), numbers(image.columns)};
  }
  if (over.maps.empty()) throw Error("attention picture: expected maps of the parts of an image, got none");
  return over;
}

bool AttentionPicture::is_over_image(const std::string& kind) const {
  return over_image && std::find(beside.begin(), beside.end(), kind) == beside.end();
}

namespace plot {

Rgb mean_color(const InputImage& image, std::int64_t row, std::int64_t column) {
  return mean_color(image, {image.rows, image.columns}, row, column);
}

Rgb mean_color(const InputImage& image, const ImageGrid& grid, std::int64_t row, std::int64_t column) {
  const auto bounds = [](std::int64_t part, std::int64_t parts, std::int64_t size) {
    return std::pair(part * size / parts, std::max(part * size / parts + 1, (part + 1) * size / parts));
  };
  const auto [top, bottom] = bounds(row, grid.rows, image.height);
  const auto [left, right] = bounds(column, grid.columns, image.width);
  std::int64_t sums[3] = {};
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) {
      for (std::int64_t c = 0; c < 3; ++c)
        sums[c] += image.rgb[static_cast<std::size_t>(3 * (y * image.width + x) + c)];
    }
  }
  const std::int64_t count = (bottom - top) * (right - left);
  return {static_cast<std::uint8_t>(sums[0] / count), static_cast<std::uint8_t>(sums[1] / count),
          static_cast<std::uint8_t>(sums[2] / count)};
}

double density(double share) {
  constexpr double kDensest = 0.85;
  return kDensest * std::sqrt(std::min(1.0, std::abs(share)));
}

Rgb covered(Rgb color, double share, Palette palette) {
  const double cover = density(share);
  const Rgb weight = shade(share, palette);
  const auto level = [cover](std::uint8_t of_image, std::uint8_t of_weight) {
    const double pale = of_image + kPale * (255 - of_image);
    return static_cast<std::uint8_t>(std::lround(pale + cover * (of_weight - pale)));
  };
  return {level(color.r, weight.r), level(color.g, weight.g), level(color.b, weight.b)};
}

Rgb lit(Rgb color, double share) {
  constexpr double kDimmest = 0.12;
  const double light = kDimmest + (1 - kDimmest) * std::sqrt(std::clamp(share, 0.0, 1.0));
  const auto level = [light](std::uint8_t value) {
    return static_cast<std::uint8_t>(std::lround(value * light));
  };
  return {level(color.r), level(color.g), level(color.b)};
}

}  // namespace plot
}  // namespace heed
