// JPEG by libjpeg-turbo. The library reports errors by a callback that must not return, so each call of it is
// made in a function with trivial locals only, which longjmp() leaves: see run().
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // for jpeglib.h, which includes nothing
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>  // the codes of messages

#include "image/decoder.h"

namespace heed::image {
namespace {

constexpr int kMostScans =
    200;  // each scan of a progressive image may touch every block; encoders write some 10
constexpr unsigned kMostMarkerBytes = 0xffff;

struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  bool truncated = false;

  const unsigned char* bytes = nullptr;
  unsigned long size = 0;
  std::uint8_t* pixels = nullptr;  // of the result
  std::uint8_t* cmyk = nullptr;    // one row

  JpegReader() = default;
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

JpegReader& reader_of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

extern "C" {
[[noreturn]] static void on_error(j_common_ptr info) {
  info->err->format_message(info, reader_of(info).message);
  std::longjmp(reader_of(info).jump, 1);
}

static void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) {
    reader_of(info).truncated = true;
    on_error(info);
  }
}

static void print_nothing(j_common_ptr) {}

static void on_progress(j_common_ptr info) {
  if (reader_of(info).info.input_scan_number <= kMostScans) return;
  constexpr char kMessage[] = "too many scans";
  std::copy(std::begin(kMessage), std::end(kMessage), reader_of(info).message);
  std::longjmp(reader_of(info).jump, 1);
}
}  // extern "C"

/// Returns false if the library failed within `step`.
bool run(JpegReader& reader, void (*step)(JpegReader&)) {
  if (setjmp(reader.jump) != 0) return false;
  step(reader);
  return true;
}

void read_header(JpegReader& reader) {
  jpeg_decompress_struct& info = reader.info;
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reader.bytes, reader.size);
  jpeg_save_markers(&info, JPEG_APP0 + 1, kMostMarkerBytes);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
}

std::uint8_t product_of_levels(int a, int b) {  // a·b/255, rounded
  const int product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

/// Inverted CMYK, 255 for no ink.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, JDIMENSION width) {
  for (JDIMENSION x = 0; x < width; ++x) {
    const int light = cmyk[4 * x + 3];
    for (int c = 0; c < 3; ++c)
      rgb[3 * x + c] = static_cast<std::uint8_t>(light - product_of_levels(255 - cmyk[4 * x + c], light));
  }
}

void read_rows(JpegReader& reader) {
  jpeg_decompress_struct& info = reader.info;
  jpeg_start_decompress(&info);
  const std::size_t stride = std::size_t{3} * info.output_width;
  constexpr JDIMENSION kRows = 16;
  while (info.output_scanline < info.output_height) {
    std::uint8_t* const row = reader.pixels + stride * info.output_scanline;
    if (info.out_color_space == JCS_CMYK) {
      JSAMPROW one = reader.cmyk;
      jpeg_read_scanlines(&info, &one, 1);
      cmyk_to_rgb(reader.cmyk, row, info.output_width);
    } else {
      JSAMPROW rows[kRows];
      JDIMENSION count = 0;
      for (; count < kRows && info.output_scanline + count < info.output_height; ++count)
        rows[count] = row + stride * count;
      jpeg_read_scanlines(&info, rows, count);
    }
  }
  jpeg_finish_decompress(&info);
}

[[noreturn]] void fail_reading(const Source& source, const JpegReader& reader) {
  if (reader.truncated) fail_truncated(source);
  fail_damaged(source, "JPEG", reader.message);
}

int orientation_of_markers(const jpeg_decompress_struct& info) {
  constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  std::string exif, xmp;
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) exif += data.substr(kExif.size());
    if (data.starts_with(kXmp)) xmp = data.substr(kXmp.size());
  }
  return orientation_of(exif, xmp);
}

}  // namespace

Decoded decode_jpeg(const Source& source) {
  JpegReader reader;
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.info.client_data = &reader;
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  reader.errors.output_message = print_nothing;
  reader.progress.progress_monitor = on_progress;
  reader.bytes = reinterpret_cast<const unsigned char*>(source.bytes.data());
  reader.size = source.bytes.size();
  if (!run(reader, read_header)) fail_reading(source, reader);
  if (reader.info.num_components == 2) fail_damaged(source, "JPEG", "it has 2 channels");

  Decoded decoded{new_pixels(source, reader.info.image_width, reader.info.image_height),
                  orientation_of_markers(reader.info)};
  std::vector<std::uint8_t> cmyk(std::size_t{4} * reader.info.image_width);
  reader.pixels = decoded.pixels.data<std::uint8_t>();
  reader.cmyk = cmyk.data();
  if (!run(reader, read_rows)) fail_reading(source, reader);
  return decoded;
}

}  // namespace heed::image
