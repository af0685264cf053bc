// The entrance of the decoders: which format it is, and what all of them check.
#include "heed/image/image.h"

#include <algorithm>
#include <string>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "image/decoder.h"

namespace heed {
namespace image {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kFormats = "PNG, JPEG, WebP, GIF or PNM";

Decoded (*known_decoder(std::string_view bytes))(const Source&) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return decode_png;
  if (bytes.starts_with("\xff\xd8\xff"sv)) return decode_jpeg;
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return decode_gif;
  if (bytes.starts_with("RIFF") &&
      bytes.substr(std::min<std::size_t>(8, bytes.size())).starts_with("WEBPVP8"))
    return decode_webp;
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
      " \t\n\v\f\r#"sv.find(bytes[2]) != std::string_view::npos)
    return decode_pnm;
  return nullptr;
}

/// What a file is that heed does not read, for messages. Empty: unknown.
std::string_view foreign_format(std::string_view bytes) {
  if (bytes.starts_with("BM")) return "a BMP image";
  if (bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv)) return "a TIFF image";
  if (bytes.starts_with("\0\0\1\0"sv)) return "an icon";
  if (bytes.starts_with("8BPS")) return "a Photoshop document";
  if (bytes.starts_with("%PDF")) return "a PDF document";
  if (bytes.starts_with("\xff\x0a"sv) || bytes.starts_with("\0\0\0\x0cJXL "sv)) return "a JPEG XL image";
  if (bytes.starts_with("\0\0\0\x0cjP  "sv)) return "a JPEG 2000 image";
  if (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp") {
    const std::string_view brand = bytes.substr(8, 4);
    if (brand == "avif" || brand == "avis") return "an AVIF image";
    if (brand.starts_with("hei") || brand.starts_with("hev") || brand == "mif1") return "a HEIC image";
    return "a film";
  }
  return {};
}

/// The first bytes as text: other than printable ASCII becomes a dot.
std::string beginning(std::string_view bytes) {
  std::string shown(bytes.substr(0, 12));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '.';
  }
  return shown;
}

// Throws Error if there is none.
Decoded (*decoder_of(const Source& source))(const Source&) {
  if (source.bytes.empty()) fail(source, "expected an image, got an empty file");
  if (const auto decode = known_decoder(source.bytes)) return decode;
  const std::string_view foreign = foreign_format(source.bytes);
  fail(source, std::string("expected a ").append(kFormats) + " image, got " +
                   (foreign.empty() ? "something else (it begins with \"" + beginning(source.bytes) + "\")"
                                    : std::string(foreign) + " (convert it: magick FILE image.png)"));
}

}  // namespace

void fail(const Source& source, std::string_view message) {
  throw Error(source.name + ": " + std::string(message));
}

void fail_truncated(const Source& source) {
  fail(source, "expected a whole image, got a truncated one (copy or download it again)");
}

void fail_damaged(const Source& source, std::string_view format, std::string_view detail) {
  fail(source,
       std::string("expected a ").append(format).append(" image, got a damaged one (").append(detail) + ")");
}

void check_size(const Source& source, std::int64_t width, std::int64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width <= 0 || height <= 0) fail(source, "expected an image with pixels, got one of " + size);
  if (width > source.limits.pixels / height) {
    fail(source, "expected at most " + std::to_string(source.limits.pixels) + " pixels, got " + size +
                     " (make it smaller, or raise the limit)");
  }
  if (width > source.limits.side || height > source.limits.side) {
    fail(source, "expected sides of at most " + std::to_string(source.limits.side) + " pixels, got " + size +
                     " (make it smaller, or raise the limit)");
  }
}

Tensor new_pixels(const Source& source, std::int64_t width, std::int64_t height) {
  check_size(source, width, height);
  return Tensor::empty({height, width, 3}, DType::u8);
}

}  // namespace image

Tensor decode_image(std::string_view bytes, const std::string& name, const ImageLimits& limits) {
  const image::Source source{bytes, name, limits};
  if (bytes.size() > limits.bytes) {
    image::fail(source, "expected at most " + std::to_string(limits.bytes) + " bytes, got " +
                            std::to_string(bytes.size()));
  }
  const image::Decoded decoded = image::decoder_of(source)(source);
  return image::upright(decoded.pixels, decoded.orientation);
}

Tensor load_image(const std::filesystem::path& path, const ImageLimits& limits) {
  return decode_image(read_file(path, limits.bytes), shown_name(path), limits);
}

void check_image_header(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const std::string name = shown_name(path);
  static_cast<void>(
      image::decoder_of({{reinterpret_cast<const char*>(file->data()), file->bytes()}, name, ImageLimits()}));
}

}  // namespace heed
