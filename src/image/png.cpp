// PNG by libpng. Like libjpeg it leaves by longjmp() when it fails, so each call of it is made in a function
// with trivial locals only: see run().
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "image/decoder.h"

namespace heed::image {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_infop end = nullptr;  // what stands behind the pixels
  char message[128] = {};
  bool truncated = false;

  std::string_view rest;      // not read yet
  bool needs_levels = false;  // whether rows hold palette indices or grey levels of 16 bits
  png_bytep* rows = nullptr;

  PngReader() = default;
  ~PngReader() { png_destroy_read_struct(&png, &info, &end); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

extern "C" {
[[noreturn]] static void on_png_error(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, message, sizeof reader.message - 1);
  png_longjmp(png, 1);
}

static void ignore_warning(png_structp, png_const_charp) {}

static void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) {
    reader.truncated = true;
    png_error(png, "truncated");
  }
  std::memcpy(to, reader.rest.data(), count);
  reader.rest.remove_prefix(count);
}
}  // extern "C"

/// Returns false if the library failed within `step`.
bool run(PngReader& reader, void (*step)(PngReader&)) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  step(reader);
  return true;
}

void read_header(PngReader& reader) {
  png_structp png = reader.png;
  reader.info = png_create_info_struct(png);
  reader.end = png_create_info_struct(png);
  png_set_read_fn(png, &reader, read_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() has limited the size
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_check_for_invalid_index(png, 0);
  png_read_info(png, reader.info);

  const int type = png_get_color_type(png, reader.info), bits = png_get_bit_depth(png, reader.info);
  reader.needs_levels = type == PNG_COLOR_TYPE_PALETTE || (type == PNG_COLOR_TYPE_GRAY && bits == 16);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(png);
  } else if (!reader.needs_levels) {
    png_set_strip_16(png);
    if ((type & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png);
    if ((type & PNG_COLOR_MASK_COLOR) == 0) {
      png_set_expand_gray_1_2_4_to_8(png);
      png_set_gray_to_rgb(png);
    }
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
}

void read_pixels(PngReader& reader) {
  png_read_image(reader.png, reader.rows);
  png_read_end(reader.png, reader.end);
}

[[noreturn]] void fail_reading(const Source& source, const PngReader& reader) {
  if (reader.truncated) fail_truncated(source);
  fail_damaged(source, "PNG", reader.message);
}

/// Size and limits are checked before the library sees the file, whose own messages do not name numbers.
void check_header(const Source& source) {
  if (source.bytes.size() < 24) fail_truncated(source);
  const auto number = [&](std::size_t at) {
    std::int64_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<std::uint8_t>(source.bytes[i]);
    return value;
  };
  if (source.bytes.substr(12, 4) != "IHDR") fail_damaged(source, "PNG", "it has no IHDR at its beginning");
  check_size(source, number(16), number(20));
  // The library takes the memory of a chunk before it reads it.
  constexpr std::size_t kSignature = 8, kAround = 12;  // bytes; of a chunk: length, name and checksum
  for (std::size_t at = kSignature; at + kAround <= source.bytes.size();) {
    const auto length = static_cast<std::size_t>(number(at));
    if (length > source.bytes.size() - at - kAround) fail_truncated(source);
    if (source.bytes.substr(at + 4, 4) == "IEND") break;
    at += kAround + length;
  }
}

/// Palette indices, or grey levels of 16 bits, to red, green and blue. An index that the palette lacks is
/// black, and grey levels above 255 are white, as in Pillow.
void to_levels(const PngReader& reader, const std::vector<std::uint8_t>& rows, std::int64_t count,
               std::uint8_t* out) {
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_GRAY) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(2 * i);
      std::memset(out + 3 * i, rows[at] != 0 ? 255 : rows[at + 1], 3);
    }
    return;
  }
  png_colorp colors = nullptr;
  int known = 0;
  png_get_PLTE(reader.png, reader.info, &colors, &known);
  std::uint8_t palette[256][3] = {};
  for (int i = 0; i < known; ++i) {
    palette[i][0] = colors[i].red;
    palette[i][1] = colors[i].green;
    palette[i][2] = colors[i].blue;
  }
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + 3 * i, palette[rows[static_cast<std::size_t>(i)]], 3);
}

/// Old programs write EXIF data as text: three lines, then hexadecimal digits.
std::string bytes_of_raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    if (high >= 0) bytes.push_back(static_cast<char>(high << 4 | digit));
    high = high >= 0 ? -1 : digit;
  }
  return bytes;
}

int orientation_of_chunks(const PngReader& reader) {
  std::string exif, raw_profile, xmp;
  for (png_infop info : {reader.info, reader.end}) {
    png_uint_32 size = 0;
    png_bytep data = nullptr;
    if (png_get_eXIf_1(reader.png, info, &size, &data) != 0)
      exif.assign(reinterpret_cast<const char*>(data), size);
    png_textp texts = nullptr;
    int count = 0;
    png_get_text(reader.png, info, &texts, &count);
    for (int i = 0; i < count; ++i) {
      const std::string_view key = texts[i].key;
      const std::size_t length = std::max(texts[i].text_length, texts[i].itxt_length);
      const std::string_view text(texts[i].text == nullptr ? "" : texts[i].text,
                                  texts[i].text == nullptr ? 0 : length);
      if (key == "XML:com.adobe.xmp") xmp = text;
      if (key == "Raw profile type exif") raw_profile = bytes_of_raw_profile(text);
    }
  }
  return orientation_of(exif.empty() ? raw_profile : exif, xmp);
}

}  // namespace

Decoded decode_png(const Source& source) {
  check_header(source);
  PngReader reader;
  reader.rest = source.bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_png_error, ignore_warning);
  if (reader.png == nullptr) fail(source, "cannot be decoded (no memory left)");
  if (!run(reader, read_header)) fail_reading(source, reader);

  const std::int64_t width = png_get_image_width(reader.png, reader.info);
  const std::int64_t height = png_get_image_height(reader.png, reader.info);
  Decoded decoded{new_pixels(source, width, height)};
  std::uint8_t* pixels = decoded.pixels.data<std::uint8_t>();
  const std::size_t stride = png_get_rowbytes(reader.png, reader.info);
  std::vector<std::uint8_t> raw(reader.needs_levels ? stride * static_cast<std::size_t>(height) : 0);
  std::vector<png_bytep> rows(static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < rows.size(); ++y)
    rows[y] = (reader.needs_levels ? raw.data() : pixels) + y * stride;
  reader.rows = rows.data();
  if (!run(reader, read_pixels)) fail_reading(source, reader);
  if (reader.needs_levels) to_levels(reader, raw, width * height, pixels);
  decoded.orientation = orientation_of_chunks(reader);
  return decoded;
}

}  // namespace heed::image
