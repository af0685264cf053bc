// The orientation of a photograph: where EXIF or XMP data give it, and turning the image upright.
#pragma once

#include <string_view>

#include "heed/tensor.h"

namespace heed::image {

/// Returns the orientation, 1 to 8, that a file's metadata give: EXIF data (a TIFF structure, with or without
/// "Exif\0\0" before it) or, if they have none, XMP data (XML). Either may be empty. Returns 1 if there is
/// none or the data are malformed: a picture without orientation is still a picture.
int orientation_of(std::string_view exif, std::string_view xmp);

/// Returns the image u8[height, width, 3] as it is to be seen: orientations 2 to 4 mirror or rotate it by 180
/// degrees, 5 to 8 also swap height and width.
Tensor upright(const Tensor& image, int orientation);

}  // namespace heed::image
