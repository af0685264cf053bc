// The orientation that EXIF gives, and images turned by it.
#include "image/decoder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "heed/threads.h"

namespace heed::image {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;

/// Numbers of a TIFF structure, in its byte order. Reading past the end gives nothing.
class TiffReader {
 public:
  TiffReader(std::string_view bytes, bool little_endian) : bytes_(bytes), little_endian_(little_endian) {}

  std::optional<std::uint32_t> read(std::uint64_t offset, std::uint64_t size) const {
    if (offset + size > bytes_.size()) return std::nullopt;
    std::uint32_t value = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t at = offset + (little_endian_ ? size - 1 - i : i);
      value = (value << 8) | static_cast<std::uint8_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_endian_;
};

std::optional<int> orientation_of_exif(std::string_view exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  for (int i = 0; i < 2 && exif.starts_with(kPrefix); ++i) exif.remove_prefix(kPrefix.size());
  const bool little_endian = exif.starts_with("II");
  if (!little_endian && !exif.starts_with("MM")) return std::nullopt;
  const TiffReader tiff(exif, little_endian);
  const auto directory = tiff.read(4, 4);
  if (tiff.read(2, 2) != 42u || !directory) return std::nullopt;
  const auto entries = tiff.read(*directory, 2);
  if (!entries) return std::nullopt;
  for (std::uint64_t i = 0; i < *entries; ++i) {
    const std::uint64_t entry = std::uint64_t{*directory} + 2 + 12 * i;
    if (tiff.read(entry, 2) != kOrientationTag) continue;
    const auto type = tiff.read(entry + 2, 2);  // 1: a byte, 3: 16 bits, 4: 32 bits
    const std::uint64_t size = type == 1u ? 1 : type == 3u ? 2 : 4;
    const auto value = tiff.read(entry + 8, size);
    if (!value) return std::nullopt;
    return *value <= 8 ? static_cast<int>(*value) : 0;
  }
  return std::nullopt;
}

/// `tiff:Orientation="6"` or `<tiff:Orientation>6<`.
std::optional<int> orientation_of_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (!rest.starts_with("=\"") && !rest.starts_with(">")) continue;
    rest.remove_prefix(rest.front() == '=' ? 2 : 1);
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') return rest.front() - '0';
  }
  return std::nullopt;
}

}  // namespace

int orientation_of(std::string_view exif, std::string_view xmp) {
  auto orientation = orientation_of_exif(exif);
  if (!orientation) orientation = orientation_of_xmp(xmp);
  return orientation && *orientation >= 1 && *orientation <= 8 ? *orientation : 1;
}

Tensor upright(const Tensor& image, int orientation) {
  if (orientation == 1) return image;
  const std::int64_t height = image.size(0), width = image.size(1);
  const bool swaps = orientation >= 5;
  // Output pixel (y, x) is input pixel (y, x), or (x, y) if the axes swap, each counted from the other end
  // where the image is flipped along it.
  const bool flips_rows = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool flips_columns = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const std::int64_t out_height = swaps ? width : height, out_width = swaps ? height : width;
  Tensor result = Tensor::empty({out_height, out_width, 3}, DType::u8);
  const std::uint8_t* in = image.data<std::uint8_t>();
  std::uint8_t* out = result.data<std::uint8_t>();
  constexpr std::int64_t kTile = 32;  // pixels of a side, such that a tile of both images stays in the cache
  parallel_for((out_height + kTile - 1) / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      for (std::int64_t left = 0; left < out_width; left += kTile) {
        for (std::int64_t y = tile * kTile; y < std::min((tile + 1) * kTile, out_height); ++y) {
          for (std::int64_t x = left; x < std::min(left + kTile, out_width); ++x) {
            const std::int64_t from_y = flips_rows ? out_height - 1 - y : y;
            const std::int64_t from_x = flips_columns ? out_width - 1 - x : x;
            const std::int64_t from = swaps ? from_x * width + from_y : from_y * width + from_x;
            std::memcpy(out + 3 * (y * out_width + x), in + 3 * from, 3);
          }
        }
      }
    }
  });
  return result;
}

}  // namespace heed::image
