// Resizing: equal to Pillow to the last bit (tests/fixtures/image.py). torchvision's arithmetic is tested
// with the processors.
#include "heed/image/image.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "heed/io/safetensors.h"
#include "heed/threads.h"
#include "image/fixtures.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

TEST(Resize, EveryFilterIsPillows) {
  const auto cases = SafetensorsFile::open(kFixtures / "resized.safetensors");
  int compared = 0;
  for (const TensorInfo& info : cases.tensors()) {
    const std::size_t point =
        info.name.rfind('.');  // HEIGHTxWIDTH.HEIGHTxWIDTH.FILTER, or without a filter the input
    if (point + 2 != info.name.size()) continue;
    const Tensor expected = cases.get(info.name), input = cases.get(info.name.substr(0, point));
    const auto filter = static_cast<ResizeFilter>(info.name.back() - '0');
    const Tensor resized = resize_image(input, expected.size(0), expected.size(1), filter);
    EXPECT_EQ(resized.shape(), expected.shape()) << info.name;
    EXPECT_EQ(resized.to_vector<std::uint8_t>(), expected.to_vector<std::uint8_t>()) << info.name;
    ++compared;
  }
  EXPECT_EQ(compared, 15 * 6);
}

TEST(Resize, ViewsAndThreadsDoNotMatter) {
  const auto cases = SafetensorsFile::open(kFixtures / "resized.safetensors");
  const Tensor image = cases.get("61x37.32x32");
  const Tensor transposed = image.as_strided({37, 61, 3}, {3, 111, 1}, 0);
  const int before = threads();
  set_threads(1);
  const Tensor alone = resize_image(transposed, 40, 20, ResizeFilter::bicubic);
  set_threads(4);
  const Tensor together = resize_image(transposed.contiguous(), 40, 20, ResizeFilter::bicubic);
  set_threads(before);
  EXPECT_EQ(alone.to_vector<std::uint8_t>(), together.to_vector<std::uint8_t>());
}

TEST(Resize, RefusesWhatItCannotDo) {
  const Tensor image = Tensor::zeros({4, 5, 3}, DType::u8);
  const auto error = [&](const Tensor& input, std::int64_t height, std::int64_t width, ResizeFilter filter) {
    return error_of([&] { resize_image(input, height, width, filter, ResizeArithmetic::torchvision); });
  };
  using enum ResizeFilter;
  EXPECT_EQ(error(Tensor::zeros({4, 5, 3}), 2, 2, bilinear),
            "resize_image: expected u8[height, width, 3], got f32[4, 5, 3]");
  EXPECT_EQ(error(Tensor::zeros({4, 0, 3}, DType::u8), 2, 2, bilinear),
            "resize_image: expected u8[height, width, 3], got u8[4, 0, 3]");
  EXPECT_EQ(error(image, 0, 2, bilinear),
            "resize_image: expected a size of 1 to 67108864 pixels, got 0 x 2 (height x width)");
  EXPECT_EQ(error(image, 100'000, 100'000, bilinear),
            "resize_image: expected a size of 1 to 67108864 pixels, got 100000 x 100000 (height x width)");
  EXPECT_EQ(
      error(image, 2, 2, hamming),
      "resize_image: expected nearest, lanczos, bilinear or bicubic, which torchvision has, got hamming");
}

}  // namespace
}  // namespace heed
