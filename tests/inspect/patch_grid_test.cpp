// The pictures that parts are of; grids and names are compared with models in tests/explore and tests/cli.
#include "inspect/patch_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace heed::inspect {
namespace {

const InputSpec kWaveform{
    .kind = InputKind::waveform, .row = {-1}, .name = "input_values", .least = 400, .hop = 320};

// Half a second of a tone, then silence.
std::vector<float> tone_of(double hertz, double factor) {
  std::vector<float> samples(16'000);
  for (std::size_t i = 0; i < 8'000; ++i)
    samples[i] =
        static_cast<float>(factor * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / 16'000));
  return samples;
}

InputImage picture_of(const std::vector<float>& samples) {
  const TensorMap inputs{{"input_values", Tensor::from(samples, {1, std::ssize(samples)})}};
  return picture_of_parts(kWaveform, inputs, patch_grid(kWaveform, inputs).value());
}

int level_at(const InputImage& image, std::int64_t y, std::int64_t x) {
  return image.rgb[static_cast<std::size_t>(3 * (y * image.width + x))];
}

TEST(PictureOfParts, OfSamplesIsTheirSpectrogram) {
  const InputImage image = picture_of(tone_of(1000, 0.1));
  EXPECT_EQ(image.width, 100);  // a frame each 10 ms
  EXPECT_EQ(image.height, 80);
  EXPECT_EQ(image.rows, 1);
  EXPECT_EQ(image.columns, 49);
  // Of 80 filters from 0 to 8000 Hz, which are 45.245 of Slaney's mel, number 26 is centered next to 1000 Hz,
  // which are 15: at 27 / 81 of all.
  std::int64_t darkest = 0;
  for (std::int64_t y = 0; y < image.height; ++y) {
    if (level_at(image, y, 25) < level_at(image, darkest, 25)) darkest = y;
    EXPECT_EQ(level_at(image, y, 75), 255) << "silence";
  }
  EXPECT_EQ(darkest, 79 - 26);
  EXPECT_EQ(level_at(image, darkest, 25), 0);
}

TEST(PictureOfParts, DoesNotDependOnLoudness) {
  const InputImage loud = picture_of(tone_of(440, 0.9)), quiet = picture_of(tone_of(440, 0.09));
  for (std::size_t i = 0; i < loud.rgb.size(); ++i) EXPECT_NEAR(loud.rgb[i], quiet.rgb[i], 1);
}

TEST(PictureOfParts, OfFewSamplesExists) {
  InputSpec spec = kWaveform;
  spec.least = 20, spec.hop = 10;
  const TensorMap inputs{{"input_values", Tensor::from(std::vector<float>(50, 0.5f), {1, 50})}};
  const InputImage image = picture_of_parts(spec, inputs, patch_grid(spec, inputs).value());
  EXPECT_EQ(image.width, 1);
  EXPECT_EQ(image.columns, 4);
}

}  // namespace
}  // namespace heed::inspect
