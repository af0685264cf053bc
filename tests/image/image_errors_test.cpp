// Files that are no images, or bad ones: one line that names the file and what is wrong, and nothing printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/image/image.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::string_literals;
const fs::path kFiles = fs::path(HEED_FIXTURES) / "image/files";

std::string error_for(const std::string& bytes, const ImageLimits& limits = {}) {
  testing::internal::CaptureStderr();
  std::string error = error_of([&] { decode_image(bytes, "x.jpg", limits); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  return error;
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift & 0xff));
  return bytes;
}

std::string png_of_size(std::uint32_t width, std::uint32_t height) {
  std::string png = slurp(kFiles / "rgb-8.png");
  return png.replace(16, 8, big_endian(width) + big_endian(height));
}

TEST(ImageErrors, NoImage) {
  EXPECT_EQ(error_for(""), "x.jpg: expected an image, got an empty file");
  EXPECT_EQ(error_for("Hello world, this is text.\n"),
            "x.jpg: expected a PNG, JPEG, WebP, GIF or PNM image, got something else (it begins with \"Hello "
            "world,\")");
  EXPECT_EQ(
      error_for("\x01\xff\n"),
      "x.jpg: expected a PNG, JPEG, WebP, GIF or PNM image, got something else (it begins with \"...\")");
  EXPECT_EQ(error_for("BM123456"),
            "x.jpg: expected a PNG, JPEG, WebP, GIF or PNM image, got a BMP image (convert it: magick FILE "
            "image.png)");
  EXPECT_THAT(error_for("II*\0\x08\0\0\0"s), HasSubstr("got a TIFF image"));
  EXPECT_THAT(error_for("\0\0\0\x1c"s + "ftypheic"), HasSubstr("got a HEIC image"));
  EXPECT_THAT(error_for("\0\0\0\x1c"s + "ftypavif"), HasSubstr("got an AVIF image"));
  EXPECT_THAT(error_for("%PDF-1.7"), HasSubstr("got a PDF document"));
  EXPECT_THAT(error_for("RIFF\x10\0\0\0WAVEfmt "s), HasSubstr("got something else"));
}

TEST(ImageErrors, NoFile) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a.png").string();
  EXPECT_EQ(error_of([&] { load_image(path); }), path + ": not found (check the path)");
  EXPECT_EQ(error_of([&] { load_image(folder.path()); }),
            folder.path().string() + ": expected a file, got a directory");
  spill(path, "Hello world");
  EXPECT_THAT(error_of([&] { load_image(path); }),
              HasSubstr(path + ": expected a PNG, JPEG, WebP, GIF or PNM"));
  EXPECT_EQ(error_of([&] { load_image(path, {.bytes = 10}); }),
            path + ": expected a file of at most 10 bytes, got a longer one");
}

TEST(ImageErrors, TruncatedAnywhere) {
  for (const char* name :
       {"420.jpg", "420-progressive.jpg", "cmyk.jpg", "rgb-8.png", "palette-4-interlaced.png", "lossy.webp",
        "lossless-alpha.webp", "animated.webp", "plain.gif", "interlaced.gif", "rgb.ppm", "text-rgb.ppm"}) {
    const std::string bytes = slurp(kFiles / name);
    const std::size_t data = bytes.size() / 2;
    EXPECT_EQ(error_for(bytes.substr(0, data)),
              "x.jpg: expected a whole image, got a truncated one (copy or download it again)")
        << name;
    for (std::size_t length = 3; length + 3 < bytes.size(); length += 1 + bytes.size() / 50)
      EXPECT_THAT(error_for(bytes.substr(0, length)), HasSubstr("x.jpg: expected "))
          << name << " of " << length;
  }
}

TEST(ImageErrors, Bombs) {
  EXPECT_EQ(
      error_for(png_of_size(149'999'999, 1)),
      "x.jpg: expected sides of at most 1000000 pixels, got 149999999 x 1 (make it smaller, or raise the "
      "limit)");
  EXPECT_EQ(
      error_for(png_of_size(20'000, 10'000)),
      "x.jpg: expected at most 150000000 pixels, got 20000 x 10000 (make it smaller, or raise the limit)");
  EXPECT_EQ(
      error_for(png_of_size(0x7fffffff, 0x7fffffff)),
      "x.jpg: expected at most 150000000 pixels, got 2147483647 x 2147483647 (make it smaller, or raise the "
      "limit)");
  std::string jpeg = slurp(kFiles / "420.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0\0\x11\x08"s);
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00"s);
  EXPECT_THAT(error_for(jpeg), HasSubstr("expected at most 150000000 pixels, got 65280 x 65280"));
  std::string gif = slurp(kFiles / "plain.gif");
  gif.replace(6, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(error_for(gif), HasSubstr("expected at most 150000000 pixels, got 65535 x 65535"));
  EXPECT_THAT(error_for("P6 99999 99999 255\n"),
              HasSubstr("expected at most 150000000 pixels, got 99999 x 99999"));
  EXPECT_THAT(error_for("P6 9999 9999 255\n"), HasSubstr("truncated"));  // before memory is taken
  EXPECT_THAT(error_for(slurp(kFiles / "lossless.webp"), {.pixels = 100}),
              HasSubstr("expected at most 100 pixels, got 34 x 21"));
  EXPECT_EQ(error_for(slurp(kFiles / "animated.webp"), {.frames = 1}),
            "x.jpg: expected at most 1 frames, got 2");
  EXPECT_EQ(error_for(slurp(kFiles / "rgb.ppm"), {.bytes = 100}),
            "x.jpg: expected at most 100 bytes, got 2155");
}

TEST(ImageErrors, NoPixels) {
  EXPECT_EQ(error_for(png_of_size(0, 5)), "x.jpg: expected an image with pixels, got one of 0 x 5");
  EXPECT_EQ(error_for("P5 4 0 255\n"), "x.jpg: expected an image with pixels, got one of 4 x 0");
  std::string jpeg = slurp(kFiles / "420.jpg");
  jpeg.replace(jpeg.find("\xff\xc0\0\x11\x08"s) + 5, 4, 4, '\0');
  EXPECT_THAT(error_for(jpeg),
              HasSubstr("x.jpg: expected a JPEG image, got a damaged one (Empty JPEG image"));
}

TEST(ImageErrors, LyingHeaders) {
  std::string png = slurp(kFiles / "rgb-8.png");
  png[20] ^= 1;  // the height, whose checksum no longer fits
  EXPECT_THAT(error_for(png), HasSubstr("x.jpg: expected "));
  png = slurp(kFiles / "rgb-8.png");
  png[25] = 7;
  EXPECT_EQ(error_for(png), "x.jpg: expected a PNG image, got a damaged one (IHDR: CRC error)");
  EXPECT_THAT(error_for("\x89PNG\r\n\x1a\n" + std::string(30, 'a')),
              HasSubstr("it has no IHDR at its beginning"));
  // A text of 620 MB in a file of 200 bytes; libpng would take the memory before it reads.
  EXPECT_EQ(error_for(slurp(kFiles / "orientation-raw-profile.png").replace(33, 4, "\x25\0\0\x66"s)),
            "x.jpg: expected a whole image, got a truncated one (copy or download it again)");
  std::string webp = slurp(kFiles / "lossless.webp");
  webp[25] ^= 0x7f;
  EXPECT_THAT(error_for(webp), HasSubstr("x.jpg: expected a "));
  EXPECT_THAT(error_for("GIF89a\1\0\1\0\0\0\0;"s),
              HasSubstr("expected a GIF image, got a damaged one (it has no frame)"));
  EXPECT_THAT(error_for("\xff\xd8\xff\xd9"),
              HasSubstr("expected a JPEG image, got a damaged one (JPEG datastream contains no image)"));
  EXPECT_EQ(error_for("P2 1 1 7 9"),
            "x.jpg: expected a PNM image, got a damaged one (expected levels up to 7, got 9)");
  EXPECT_THAT(error_for("P2 1 1 7 x"), HasSubstr("expected a number for a level"));
  EXPECT_THAT(error_for("P5 2 1 70000\n12"),
              HasSubstr("expected a greatest level from 1 to 65535, got 70000"));
  EXPECT_THAT(error_for("P5 -2 1 255\n12"), HasSubstr("expected a number for width"));
}

// Any changed byte gives an image or one line, never a crash.
TEST(ImageErrors, DamagedAnywhere) {
  Choices choices(7);
  for (const char* name :
       {"420.jpg", "420-progressive.jpg", "cmyk.jpg", "rgb-8-interlaced.png", "lossy-alpha.webp",
        "animated-offset.webp", "interlaced.gif", "orientation-raw-profile.png"}) {
    const std::string good = slurp(kFiles / name);
    for (int i = 0; i < 100; ++i) {
      std::string bad = good;
      bad[choices.below(bad.size())] = static_cast<char>(choices.below(256));
      const std::string error = error_for(bad);
      EXPECT_TRUE(error == "no error" || error.starts_with("x.jpg: expected ")) << name << ": " << error;
    }
  }
}

}  // namespace
}  // namespace heed
