// Decoding: every format and each of its odd cases, equal to Pillow (tests/fixtures/image.py).
#include "heed/image/image.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "heed/io/safetensors.h"
#include "image/fixtures.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

/// The number of levels that differ, or -1 if the shape does.
std::int64_t differences(const Tensor& image, const Tensor& expected) {
  if (image.shape() != expected.shape()) return -1;
  const auto a = image.to_vector<std::uint8_t>(), b = expected.to_vector<std::uint8_t>();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

TEST(Image, EveryFormatIsDecodedAsPillowDoes) {
  const auto expected = SafetensorsFile::open(kFixtures / "files.safetensors");
  EXPECT_EQ(expected.tensors().size(), listing(kFixtures / "files").size());
  for (const TensorInfo& info : expected.tensors())
    EXPECT_EQ(differences(load_image(kFixtures / "files" / info.name), expected.get(info.name)), 0)
        << info.name;
}

TEST(Image, PicturesAreThoseOfLoadImage) {
  const auto expected = SafetensorsFile::open(kFixtures / "pictures/decoded.safetensors");
  ASSERT_EQ(expected.tensors().size(), 9u);
  for (const TensorInfo& info : expected.tensors()) {
    const Tensor image = load_image(kFixtures / "pictures" / info.name), first = expected.get(info.name);
    ASSERT_GE(image.size(0), first.size(0)) << info.name;  // which has at most the first 90 rows
    const Tensor rows = image.as_strided(first.shape(), image.strides(), 0);
    EXPECT_EQ(differences(rows, first), 0) << info.name;
  }
}

TEST(Image, TheKindIsFoundFromTheBytes) {
  const TemporaryFolder folder;
  fs::copy_file(kFixtures / "files/lossless.webp", folder.path() / "photo.jpg");
  EXPECT_EQ(
      differences(load_image(folder.path() / "photo.jpg"), load_image(kFixtures / "files/lossless.webp")), 0);
}

TEST(Image, BytesInMemoryAreDecodedAlike) {
  const fs::path file = kFixtures / "files/420-progressive.jpg";
  const std::string bytes = slurp(file);
  const Tensor image = decode_image(bytes, "an upload");
  EXPECT_EQ(image.str(), "u8[21, 34, 3]");
  EXPECT_EQ(differences(image, load_image(file)), 0);
}

TEST(Image, APipeIsReadToItsEnd) {
  const TemporaryFolder folder;
  const fs::path file = kFixtures / "files/420-progressive.jpg", pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { spill(pipe, slurp(file)); });
  EXPECT_EQ(differences(load_image(pipe), load_image(file)), 0);
  writer.join();
}

// Bytes behind the image, as some programs append, do not matter.
TEST(Image, TrailingBytesAreIgnored) {
  for (const char* name : {"420.jpg", "rgb-8.png", "lossy.webp", "plain.gif", "rgb.ppm"}) {
    const fs::path file = kFixtures / "files" / name;
    EXPECT_EQ(differences(decode_image(slurp(file) + "more", name), load_image(file)), 0) << name;
  }
}

}  // namespace
}  // namespace heed
