// Parts of images and sounds: how many, their names, and their picture.
#include "inspect/patch_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sound/spectrogram.h"

namespace heed::inspect {
namespace {

// Of all models of sound so far.
constexpr std::int64_t kSamplesPerSecond = 16000;
constexpr double kFramesPerSecond = 100;

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

// A spectrogram, dark where it is loud, low frequencies at the bottom; `loudness(bin, frame)` gives its
// values.
template <class Loudness>
InputImage image_of_spectrogram(std::int64_t bins, std::int64_t frames, float low, float high,
                                const Loudness& loudness) {
  return image_of_numbers(bins, frames, -high, -low,
                          [&](auto y, auto x, auto) { return -loudness(bins - 1 - y, x); });
}

// The spectrogram of samples, of which a model may read the differences alone: 80 dB below the loudest.
InputImage image_of_samples(std::vector<float> samples) {
  constexpr std::int64_t kBins = 80;
  constexpr float kDecades = 8;
  const sound::SpectrogramSettings settings;
  const auto count = std::ssize(samples);
  const std::int64_t frames = std::max<std::int64_t>(1, count / settings.hop);
  samples.resize(static_cast<std::size_t>(std::max(count, settings.frame / 2 + 1)));  // reflected at the ends
  std::vector<float> values(static_cast<std::size_t>(kBins * frames));
  sound::Spectrogram(settings, sound::MelFilters::slaney(kBins, settings.fft_size, kSamplesPerSecond))(
      samples, frames, values);
  const float high = *std::max_element(values.begin(), values.end());
  const float low = std::max(*std::min_element(values.begin(), values.end()), high - kDecades);
  return image_of_spectrogram(kBins, frames, low, high, [&](std::int64_t bin, std::int64_t frame) {
    return values[static_cast<std::size_t>(bin * frames + frame)];
  });
}

// What the parts are of, drawn from the tensor; nothing of one of another shape.
InputImage image_of_tensor(const InputSpec& input, const Tensor& values) {
  const std::vector<float> numbers = values.to(DType::f32).to_vector<float>();
  if (input.kind == InputKind::waveform && values.rank() == 2) return image_of_samples(numbers);
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const auto at = [&](std::int64_t index) { return numbers[static_cast<std::size_t>(index)]; };
  if (input.kind == InputKind::pixels && values.rank() == 4) {
    const std::int64_t channels = values.size(1), height = values.size(2), width = values.size(3);
    return image_of_numbers(height, width, *low, *high, [&](auto y, auto x, auto c) {
      return at((std::min(c, channels - 1) * height + y) * width + x);
    });
  }
  if (input.kind != InputKind::spectrogram || values.rank() != 3) return {};
  const bool cut = input.patch.rank() == 2;  // [1, frames, bins], else [1, bins, frames]
  const std::int64_t bins = values.size(cut ? 2 : 1), frames = values.size(cut ? 1 : 2);
  return image_of_spectrogram(bins, frames, *low, *high, [&](std::int64_t bin, std::int64_t frame) {
    return at(cut ? frame * bins + bin : bin * frames + frame);
  });
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
  const double seconds =
      static_cast<double>(cut ? cut->step[1] : 0) /
      (input.kind == InputKind::waveform ? static_cast<double>(kSamplesPerSecond) : kFramesPerSecond);
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
    const auto found = tensors.find(input.name);
    if (found != tensors.end()) image = image_of_tensor(input, found->second);
    if (image.width == 0) return {};
  }
  image.rows = grid.rows, image.columns = grid.columns, image.first = grid.first;
  image.upward = input.kind == InputKind::spectrogram;
  return image;
}

}  // namespace heed::inspect
