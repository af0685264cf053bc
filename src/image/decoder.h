// What the decoders of the formats share: what they read, what they return, and how they fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "heed/image/image.h"

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

}  // namespace heed::image
