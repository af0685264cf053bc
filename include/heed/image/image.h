// Photographs and drawings as tensors: PNG, JPEG, WebP, GIF and PNM files become u8[height, width, 3].
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Limits on an image file. Each is checked before memory is allocated.
struct ImageLimits {
  std::int64_t pixels = 150'000'000;           ///< width × height
  std::int64_t side = 1'000'000;               ///< of either: resizing has weights for each pixel of it
  std::size_t bytes = std::size_t{256} << 20;  ///< size of the file
  std::int64_t frames = 10'000;                ///< of an animated WebP; only the first frame of a GIF is read
};

/// Decodes an image file to u8[height, width, 3], the levels of red, green and blue. The format follows from
/// the first bytes of the file, never from its name: PNG, JPEG, WebP, GIF, and PNM (P1 to P6). The first
/// frame of an animation is decoded. An orientation in EXIF (1 to 8) or XMP data is applied.
///
/// The result is that of Pillow's `ImageOps.exif_transpose(Image.open(path)).convert("RGB")`: alpha is
/// dropped, not blended; color profiles and gamma are ignored; 16 bits per channel keep the upper 8, but grey
/// levels of 16 bits are clipped to 255; CMYK is taken as inverted, as Adobe's programs write it.
///
/// A pipe or device, such as /dev/stdin, is read to its end.
///
/// Throws Error naming the file if it cannot be read, is no such image, is truncated or damaged, or exceeds
/// `limits`. Threads: calls are independent.
Tensor load_image(const std::filesystem::path& path, const ImageLimits& limits = {});

/// The same from the bytes of a file. Messages begin with `name`.
Tensor decode_image(std::string_view bytes, const std::string& name, const ImageLimits& limits = {});

// Resizing of images with smoothing filters, equal to Pillow's or torchvision's to the last bit.

/// The numbers are those of Pillow and `preprocessor_config.json`.
enum class ResizeFilter : std::uint8_t {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5,
};

/// The library whose arithmetic is reproduced; results differ by one level in places.
enum class ResizeArithmetic : std::uint8_t {
  pillow,       ///< weights of 22 bits after the point
  torchvision,  ///< weights of at most 16 bits in all, as `resize` of torchvision 0.29 with AVX2
};

/// Resizes u8[height, width, 3] to u8[height', width', 3]. Each output level is the weighted mean of the
/// input levels within the filter's support, which grows with the scale when shrinking (antialiasing): first
/// along rows, rounded to whole levels, then along columns. Equal to Pillow's `Image.resize` of an RGB image.
/// With torchvision's arithmetic there is nearest, bilinear, bicubic and lanczos. Throws Error for another
/// dtype or shape, a size below 1, more than 2^26 output pixels, or a filter that the arithmetic lacks.
Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width, ResizeFilter filter,
                    ResizeArithmetic arithmetic = ResizeArithmetic::pillow);

}  // namespace heed
