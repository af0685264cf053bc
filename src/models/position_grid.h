// Learned positions of a grid of patches, resized for images of other sizes.
#pragma once

#include "heed/shape.h"
#include "heed/tensor.h"

namespace heed {

/// How positions between those of the table are computed.
enum class GridResize {
  none,           ///< not at all: images have one size
  cubic,          ///< from the four nearest along each axis (Keys 1981, with a = -0.75)
  smooth_cubic,   ///< by a filter that grows when shrinking (antialiasing), with a = -0.5
  smooth_linear,  ///< from the two nearest, in proportion to their distance, with antialiasing
};

/// The positions [h w, D] of a grid `from` = [h, w], as those of a grid `to`: [H W, D]. Equal to PyTorch's
/// `interpolate(mode="bicubic", align_corners=False)` or, of smooth_linear, mode="bilinear"; with `antialias`
/// for the smooth ones. f32.
Tensor resize_positions(const Tensor& positions, const Shape& from, const Shape& to, GridResize how);

}  // namespace heed
