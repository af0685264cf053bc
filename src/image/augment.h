// Random changes to the images of training, after which they still show the same.
#pragma once

#include <cstdint>

#include "heed/image/image.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace heed::image {

struct Augmentation {
  /// Below 1: a part of the image is resized to the whole, of this share of its area at least and with 3/4 to
  /// 4/3 of its proportions (Szegedy et al. 2015, "Going deeper with convolutions").
  double crop_scale = 1;
  std::int64_t crop_padding = 0;  ///< the image, this many black pixels around, is cut anywhere to its size
  double flip = 0;                ///< probability that left and right are exchanged
  double jitter =
      0;  ///< brightness, contrast and saturation, each times a factor from 1 - jitter to 1 + jitter

  bool crops() const { return crop_scale < 1 || crop_padding > 0; }
};

/// Changes u8[h, w, 3] by the numbers of `random`. With crops(), the result is u8[height, width, 3]; without,
/// the image keeps its size.
Tensor augment_image(const Tensor& image, const Augmentation& augmentation, std::int64_t height,
                     std::int64_t width, ResizeFilter filter, const RandomStream& random);

}  // namespace heed::image
