// Random changes of images: what each may and may not do.
#include "image/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace heed::image {
namespace {

// Pixel (y, x) has the levels y, x and y + x + 50, so that its place can be read from it.
Tensor numbered(std::int64_t height, std::int64_t width) {
  Tensor image = Tensor::empty({height, width, 3}, DType::u8);
  std::uint8_t* out = image.data<std::uint8_t>();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      *out++ = static_cast<std::uint8_t>(y + 1);
      *out++ = static_cast<std::uint8_t>(x + 1);
      *out++ = static_cast<std::uint8_t>(y + x + 50);
    }
  }
  return image;
}

std::vector<std::uint8_t> levels(const Tensor& image) { return image.to_vector<std::uint8_t>(); }

Tensor augment(const Tensor& image, const Augmentation& augmentation, std::uint64_t stream,
               std::int64_t height = 0, std::int64_t width = 0) {
  return augment_image(image, augmentation, height, width, ResizeFilter::bilinear, {7, stream});
}

TEST(Augment, NothingChangesNothing) {
  const Tensor image = numbered(5, 7);
  EXPECT_EQ(levels(augment(image, {}, 1)), levels(image));
}

TEST(Augment, TheSameNumbersMakeTheSameImage) {
  const Tensor image = numbered(20, 30);
  const Augmentation all{.crop_scale = 0.3, .crop_padding = 2, .flip = 0.5, .jitter = 0.4};
  EXPECT_EQ(levels(augment(image, all, 3, 16, 16)), levels(augment(image, all, 3, 16, 16)));
  EXPECT_NE(levels(augment(image, all, 3, 16, 16)), levels(augment(image, all, 4, 16, 16)));
}

TEST(Augment, FlipExchangesLeftAndRightInItsShareOfTheImages) {
  const Tensor image = numbered(2, 5);
  int flipped = 0;
  constexpr int kImages = 2000;
  for (std::uint64_t i = 0; i < kImages; ++i) {
    const Tensor result = augment(image, {.flip = 0.25}, i);
    ASSERT_EQ(result.shape(), image.shape());
    const std::uint8_t* row = result.data<std::uint8_t>();
    const bool is_flipped = row[1] == 5;
    for (int x = 0; x < 5; ++x) ASSERT_EQ(row[3 * x + 1], is_flipped ? 5 - x : x + 1);
    flipped += is_flipped;
  }
  EXPECT_NEAR(flipped, 0.25 * kImages, 4 * 19.4);  // 4 standard deviations
  EXPECT_EQ(levels(image), levels(numbered(2, 5))) << "the image itself was changed";
}

TEST(Augment, PaddedCropsMoveTheImageByAllDistances) {
  const Tensor image = numbered(6, 6);
  std::set<std::pair<int, int>> moves;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Tensor result = augment(image, {.crop_padding = 2}, i, 6, 6);
    ASSERT_EQ(result.shape(), (Shape{6, 6, 3}));
    const std::uint8_t* middle = result.data<std::uint8_t>() + 3 * (3 * 6 + 3);
    const int dy = middle[0] - 4, dx = middle[1] - 4;
    moves.insert({dy, dx});
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 6; ++x) {
        const bool inside = y + dy >= 0 && y + dy < 6 && x + dx >= 0 && x + dx < 6;
        const std::uint8_t* pixel = result.data<std::uint8_t>() + 3 * (6 * y + x);
        ASSERT_EQ(pixel[0], inside ? y + dy + 1 : 0);
        ASSERT_EQ(pixel[1], inside ? x + dx + 1 : 0);
      }
    }
  }
  EXPECT_EQ(moves.size(), 25U);
  EXPECT_EQ(*moves.begin(), std::pair(-2, -2));
  EXPECT_EQ(*moves.rbegin(), std::pair(2, 2));
}

// With the size of the part itself, resizing changes nothing: levels tell which part it was. Here parts are
// resized; their first and last levels bound the part.
TEST(Augment, PartsHaveTheAreaAndProportionsThatAreAskedFor) {
  const Tensor image = numbered(90, 100);
  double least = 1, most = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Tensor result = augment(image, {.crop_scale = 0.2}, i, 200, 200);
    const std::vector<std::uint8_t> all = levels(result);
    const auto extent = [&](std::size_t channel) {
      std::uint8_t low = 255, high = 0;
      for (std::size_t j = channel; j < all.size(); j += 3) {
        low = std::min(low, all[j]);
        high = std::max(high, all[j]);
      }
      return high - low + 1.0;
    };
    const double height = extent(0), width = extent(1), area = height * width / 9000;
    least = std::min(least, area), most = std::max(most, area);
    EXPECT_LE(std::max(height / width, width / height), 4.0 / 3.0 + 0.1);
  }
  EXPECT_GT(least, 0.19);
  EXPECT_LT(least, 0.27);
  EXPECT_GT(most, 0.9);
}

TEST(Augment, JitterKeepsGreyGreyAndStaysInItsRange) {
  Tensor grey = Tensor::empty({4, 4, 3}, DType::u8);
  std::fill_n(grey.data<std::uint8_t>(), 48, std::uint8_t{100});
  std::set<int> seen;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::vector<std::uint8_t> result = levels(augment(grey, {.jitter = 0.3}, i));
    EXPECT_EQ(std::set<int>(result.begin(), result.end()).size(), 1U);
    seen.insert(result.front());
  }
  EXPECT_GE(*seen.begin(), 70);
  EXPECT_LE(*seen.rbegin(), 130);
  EXPECT_GT(seen.size(), 40U);
}

}  // namespace
}  // namespace heed::image
