// What the decoders of the formats share: what they read, what they return, and how they fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "heed/image/image.h"
#include "heed/tensor.h"

namespace heed::image {

struct Source {
  std::string_view bytes;
  const std::string& name;  // begins messages
  const ImageLimits& limits;
};

struct Decoded {
  Tensor pixels;        // u8[height, width, 3]
  int orientation = 1;  // as EXIF numbers them
};

/// Throws Error `NAME: EXPECTED`.
[[noreturn]] void fail(const Source& source, std::string_view message);
[[noreturn]] void fail_truncated(const Source& source);
/// `detail` is the message of the library that decodes.
[[noreturn]] void fail_damaged(const Source& source, std::string_view format, std::string_view detail);

/// Throws Error unless 0 < width × height <= limits.pixels.
void check_size(const Source& source, std::int64_t width, std::int64_t height);
/// Checks the size, then returns an uninitialized u8[height, width, 3].
Tensor new_pixels(const Source& source, std::int64_t width, std::int64_t height);

Decoded decode_jpeg(const Source& source);
Decoded decode_png(const Source& source);
Decoded decode_webp(const Source& source);
Decoded decode_gif(const Source& source);
Decoded decode_pnm(const Source& source);

// The orientation of a photograph: where EXIF or XMP data give it, and turning the image upright.

/// Returns the orientation, 1 to 8, that a file's metadata give: EXIF data (a TIFF structure, with or without
/// "Exif\0\0" before it) or, if they have none, XMP data (XML). Either may be empty. Returns 1 if there is
/// none or the data are malformed: a picture without orientation is still a picture.
int orientation_of(std::string_view exif, std::string_view xmp);

/// Returns the image u8[height, width, 3] as it is to be seen: orientations 2 to 4 mirror or rotate it by 180
/// degrees, 5 to 8 also swap height and width.
Tensor upright(const Tensor& image, int orientation);

}  // namespace heed::image

namespace heed {

/// Throws the Error of load_image() for a file that is missing, empty, or begins as no image that heed reads.
/// The image is not decoded: it may be damaged.
void check_image_header(const std::filesystem::path& path);

}  // namespace heed
