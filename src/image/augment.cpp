// Random crops, flips, colors and mixtures of training images.
#include "image/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heed::image {
namespace {

// The numbers of one image, in the order in which they are asked for.
class Chances {
 public:
  explicit Chances(const RandomStream& random) : random_(random) {}
  double from(double low, double high) {
    return low + (high - low) * static_cast<double>(random_.uniform(next_++));
  }
  /// 0 .. count - 1.
  std::int64_t below(std::int64_t count) {
    return std::min(count - 1, static_cast<std::int64_t>(from(0, static_cast<double>(count))));
  }

 private:
  const RandomStream& random_;
  std::uint64_t next_ = 0;
};

// The part of an image whose upper left pixel is (top, left); black where there is no image.
Tensor cut(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
           std::int64_t width) {
  Tensor part = Tensor::zeros({height, width, 3}, DType::u8);
  const std::int64_t first = std::max<std::int64_t>(left, 0), end = std::min(left + width, image.size(1));
  for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + height, image.size(0)); ++y) {
    if (end <= first) break;
    std::memcpy(part.data<std::uint8_t>() + 3 * ((y - top) * width + first - left),
                image.data<std::uint8_t>() + 3 * (y * image.size(1) + first),
                static_cast<std::size_t>(3 * (end - first)));
  }
  return part;
}

// A part of random area and proportions, or the middle if none fits soon.
Tensor random_part(const Tensor& image, double least_area, Chances& chances) {
  constexpr int kTries = 10;
  const std::int64_t height = image.size(0), width = image.size(1);
  const double area = static_cast<double>(height * width), widest = std::log(4.0 / 3.0);
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * chances.from(least_area, 1), ratio = std::exp(chances.from(-widest, widest));
    const auto w = static_cast<std::int64_t>(std::lround(std::sqrt(wanted * ratio)));
    const auto h = static_cast<std::int64_t>(std::lround(std::sqrt(wanted / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const std::int64_t top = chances.below(height - h + 1);
    return cut(image, top, chances.below(width - w + 1), h, w);
  }
  const auto most = [](std::int64_t edge, std::int64_t other) {
    return std::clamp<std::int64_t>(std::llround(static_cast<double>(other) * 4 / 3), 1, edge);
  };
  const std::int64_t h = most(height, width), w = most(width, height);
  return cut(image, (height - h) / 2, (width - w) / 2, h, w);
}

void mirror(Tensor& image) {
  std::uint8_t* row = image.data<std::uint8_t>();
  for (std::int64_t y = 0; y < image.size(0); ++y, row += 3 * image.size(1)) {
    for (std::int64_t left = 0, right = image.size(1) - 1; left < right; ++left, --right)
      std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
  }
}

double grey_of(const std::uint8_t* pixel) {
  return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];  // ITU-R BT.601
}

std::uint8_t level(double value) { return static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0)); }

// Brightness, contrast and saturation, in this order, as torchvision's ColorJitter defines them: distances
// from black, from the mean grey of the image, and from the grey of the pixel are multiplied.
void change_colors(Tensor& image, double strength, Chances& chances) {
  const std::int64_t pixels = image.size(0) * image.size(1);
  std::uint8_t* const levels = image.data<std::uint8_t>();
  const double least = std::max(0.0, 1 - strength);
  const double brightness = chances.from(least, 1 + strength), contrast = chances.from(least, 1 + strength),
               saturation = chances.from(least, 1 + strength);
  double sum = 0;
  for (std::int64_t i = 0; i < 3 * pixels; ++i) levels[i] = level(levels[i] * brightness);
  for (std::int64_t i = 0; i < pixels; ++i) sum += grey_of(levels + 3 * i);
  const double mean = std::floor(sum / static_cast<double>(pixels));
  for (std::int64_t i = 0; i < pixels; ++i) {
    std::uint8_t* const pixel = levels + 3 * i;
    for (int c = 0; c < 3; ++c) pixel[c] = level(mean + (pixel[c] - mean) * contrast);
    const double grey = grey_of(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = level(grey + (pixel[c] - grey) * saturation);
  }
}

}  // namespace

Tensor augment_image(const Tensor& image, const Augmentation& augmentation, std::int64_t height,
                     std::int64_t width, ResizeFilter filter, const RandomStream& random) {
  Chances chances(random);
  Tensor result = image.contiguous();
  if (augmentation.crop_scale < 1) result = random_part(result, augmentation.crop_scale, chances);
  if (augmentation.crops()) result = resize_image(result, height, width, filter);
  if (augmentation.crop_padding > 0) {
    const std::int64_t most = augmentation.crop_padding, top = chances.below(2 * most + 1) - most;
    result = cut(result, top, chances.below(2 * most + 1) - most, height, width);
  }
  if (result.data<std::uint8_t>() == image.data<std::uint8_t>()) result = result.clone();
  if (augmentation.flip > 0 && chances.from(0, 1) < augmentation.flip) mirror(result);
  if (augmentation.jitter > 0) change_colors(result, augmentation.jitter, chances);
  return result;
}

}  // namespace heed::image
