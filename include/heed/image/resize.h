// Resizing of images with smoothing filters, equal to Pillow's or torchvision's to the last bit.
#pragma once

#include <cstdint>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// With the numbers that Pillow and `preprocessor_config.json` give them.
enum class ResizeFilter : std::uint8_t {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5,
};

/// Whose arithmetic is used; the results differ by one level here and there.
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
