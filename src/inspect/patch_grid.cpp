// Parts of images and sounds: how many, their names, and their picture.
#include "inspect/patch_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed::inspect {
namespace {

constexpr std::int64_t kWaveHeight = 120;                            // in pixels
constexpr double kSamplesPerSecond = 16000, kFramesPerSecond = 100;  // of all models of sound so far

/// What is cut into parts, as rows and columns: an image, a spectrogram [bins, frames], a waveform [1,
/// samples].
struct Cut {
  Shape extent, part, step;
};

std::optional<Cut> cut_of(const InputSpec& input, const TensorMap& tensors) {
  const auto found = tensors.find(input.name);
  if (found == tensors.end()) return std::nullopt;
  const Tensor& values = found->second;
  if (input.kind == InputKind::waveform && input.hop > 0 && values.rank() == 2)
    return Cut{{1, values.size(1)}, {1, input.least}, {1, input.hop}};
  if (input.patch.rank() != 2) return std::nullopt;
  const Shape& step = input.stride.rank() == 2 ? input.stride : input.patch;
  if (input.kind == InputKind::pixels && values.rank() == 4)
    return Cut{{values.size(2), values.size(3)}, input.patch, step};
  if (input.kind == InputKind::spectrogram && values.rank() == 3)  // [1, frames, bins]
    return Cut{{values.size(2), values.size(1)}, input.patch, step};
  return std::nullopt;
}

// Pixels of numbers from `low` to `high`; `number(y, x, c)` gives them.
template <class Number>
InputImage image_of_numbers(std::int64_t height, std::int64_t width, float low, float high,
                            const Number& number) {
  const float range = high > low ? high - low : 1;
  InputImage image{width, height, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const float share = std::clamp((number(y, x, c) - low) / range, 0.0f, 1.0f);
        image.rgb.push_back(static_cast<std::uint8_t>(std::lround(255 * share)));
      }
    }
  }
  return image;
}

// Each column of pixels is dark from the lowest to the highest of its samples.
InputImage wave_image(const std::vector<float>& samples, std::int64_t columns) {
  const auto count = std::ssize(samples),
             width = std::min<std::int64_t>(count, std::max<std::int64_t>(columns, 1000));
  float most = 1e-9f;
  for (const float sample : samples) most = std::max(most, std::abs(sample));
  InputImage image{width, kWaveHeight,
                   std::vector<std::uint8_t>(static_cast<std::size_t>(3 * width * kWaveHeight), 255)};
  const auto row_of = [most](float sample) {
    const double share = 0.5 - 0.48 * static_cast<double>(sample / most);
    return std::clamp<std::int64_t>(std::llround(share * (kWaveHeight - 1)), 0, kWaveHeight - 1);
  };
  for (std::int64_t x = 0; x < width; ++x) {
    const auto begin = samples.begin() + x * count / width, end = samples.begin() + (x + 1) * count / width;
    const auto [low, high] = std::minmax_element(begin, std::max(end, begin + 1));
    for (std::int64_t y = row_of(*high); y <= row_of(*low); ++y)
      std::fill_n(image.rgb.begin() + 3 * (y * width + x), 3, std::uint8_t{40});
  }
  return image;
}

}  // namespace

std::optional<PatchGrid> patch_grid(const InputSpec& input, const TensorMap& tensors) {
  if (input.kind == InputKind::patches) {
    const auto found = tensors.find("spatial_shapes");
    if (found == tensors.end() || found->second.numel() != 2) return std::nullopt;
    const std::vector<std::int64_t> sizes = found->second.to(DType::i64).to_vector<std::int64_t>();
    return PatchGrid{sizes[0], sizes[1], input.leading};
  }
  const auto cut = cut_of(input, tensors);
  if (!cut || cut->extent[0] < cut->part[0] || cut->extent[1] < cut->part[1]) return std::nullopt;
  const auto parts = [&](int axis) { return (cut->extent[axis] - cut->part[axis]) / cut->step[axis] + 1; };
  return PatchGrid{parts(0), parts(1), input.leading};
}

std::vector<std::string> part_labels(const InputSpec& input, const TensorMap& tensors, const PatchGrid& grid,
                                     double start) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < grid.first; ++i) {
    labels.push_back(i == 0 ? "[CLS]" : grid.first == 2 ? "[DIST]" : "[REG" + std::to_string(i) + "]");
  }
  const auto cut = cut_of(input, tensors);
  const double seconds = static_cast<double>(cut ? cut->step[1] : 0) /
                         (input.kind == InputKind::waveform ? kSamplesPerSecond : kFramesPerSecond);
  for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    const std::int64_t row = i / grid.columns, column = i % grid.columns;
    if (input.is_image()) {
      labels.push_back(fmt::format("{},{}", row, column));
    } else {
      labels.push_back(fmt::format("{:.2f} s", start + seconds * static_cast<double>(column)) +
                       (grid.rows > 1 ? fmt::format(", {}", row) : ""));
    }
  }
  return labels;
}

InputImage picture_of_parts(const InputSpec& input, const TensorMap& tensors, const PatchGrid& grid,
                            InputImage seen) {
  InputImage image = std::move(seen);
  if (image.width == 0) {
    const auto cut = cut_of(input, tensors);
    if (!cut) return {};
    const Tensor& values = tensors.at(input.name);
    const std::vector<float> numbers = values.to(DType::f32).to_vector<float>();
    const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
    const std::int64_t height = cut->extent[0], width = cut->extent[1];
    const auto at = [&](std::int64_t index) { return numbers[static_cast<std::size_t>(index)]; };
    if (input.kind == InputKind::waveform) {
      image = wave_image(numbers, grid.columns);
    } else if (input.kind == InputKind::pixels) {
      const std::int64_t channels = values.size(1);
      image = image_of_numbers(height, width, *low, *high, [&](auto y, auto x, auto c) {
        return at((std::min(c, channels - 1) * height + y) * width + x);
      });
    } else {  // dark where it is loud
      image = image_of_numbers(height, width, -*high, -*low,
                               [&](auto y, auto x, auto) { return -at(x * height + height - 1 - y); });
    }
  }
  image.rows = grid.rows, image.columns = grid.columns, image.first = grid.first;
  image.upward = input.kind == InputKind::spectrogram;
  return image;
}

}  // namespace heed::inspect
