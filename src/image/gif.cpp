// The first frame of a GIF, by giflib.
#include <gif_lib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "image/decoder.h"

namespace heed::image {
namespace {

struct Reader {
  GifFileType* gif = nullptr;
  std::string_view rest;
  bool truncated = false;

  Reader() = default;
  ~Reader() {
    if (gif != nullptr) DGifCloseFile(gif, nullptr);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

extern "C" {
static int read_gif_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& reader = *static_cast<Reader*>(gif->UserData);
  const std::size_t wanted = static_cast<std::size_t>(std::max(count, 0));
  const std::size_t read = std::min(wanted, reader.rest.size());
  reader.truncated = reader.truncated || read < wanted;
  std::memcpy(to, reader.rest.data(), read);
  reader.rest.remove_prefix(read);
  return static_cast<int>(read);
}
}  // extern "C"

[[noreturn]] void fail_reading(const Source& source, const Reader& reader, int error) {
  if (reader.truncated) fail_truncated(source);
  const char* detail = GifErrorString(error);
  fail_damaged(source, "GIF", detail == nullptr ? "unknown error" : detail);
}

/// Reads up to the header of the first frame. Returns the transparent index, -1 for none.
int find_frame(const Source& source, Reader& reader) {
  GifFileType* gif = reader.gif;
  int transparent = -1;
  for (;;) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &kind) == GIF_ERROR) fail_reading(source, reader, gif->Error);
    if (kind == IMAGE_DESC_RECORD_TYPE) break;
    if (kind == TERMINATE_RECORD_TYPE) fail_damaged(source, "GIF", "it has no frame");
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) fail_reading(source, reader, gif->Error);
    while (block != nullptr) {
      if (code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4 && (block[1] & 1) != 0) transparent = block[4];
      code = 0;  // of its first block only
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) fail_reading(source, reader, gif->Error);
    }
  }
  if (DGifGetImageDesc(gif) == GIF_ERROR) fail_reading(source, reader, gif->Error);
  return transparent;
}

/// Interlaced rows come in four passes.
std::vector<std::int64_t> order_of_rows(std::int64_t height, bool interlaced) {
  std::vector<std::int64_t> order;
  constexpr std::int64_t kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
  for (int pass = 0; pass < (interlaced ? 4 : 1); ++pass) {
    for (std::int64_t y = interlaced ? kFirst[pass] : 0; y < height; y += interlaced ? kStep[pass] : 1)
      order.push_back(y);
  }
  return order;
}

}  // namespace

Decoded decode_gif(const Source& source) {
  Reader reader;
  reader.rest = source.bytes;
  int error = 0;
  reader.gif = DGifOpen(&reader, read_gif_bytes, &error);
  if (reader.gif == nullptr) fail_reading(source, reader, error);
  const int transparent = find_frame(source, reader);

  // A frame that exceeds the screen enlarges it.
  const GifImageDesc& frame = reader.gif->Image;
  const std::int64_t width =
      std::max<std::int64_t>(reader.gif->SWidth, std::int64_t{frame.Left} + frame.Width);
  const std::int64_t height =
      std::max<std::int64_t>(reader.gif->SHeight, std::int64_t{frame.Top} + frame.Height);
  Decoded decoded{new_pixels(source, width, height)};
  std::uint8_t* pixels = decoded.pixels.data<std::uint8_t>();

  // Indices that the palette lacks are black; without a palette, indices are grey levels.
  const ColorMapObject* colors = frame.ColorMap != nullptr ? frame.ColorMap : reader.gif->SColorMap;
  std::uint8_t palette[256][3] = {};
  for (int i = 0; i < 256 && colors == nullptr; ++i) std::memset(palette[i], i, 3);
  for (int i = 0; colors != nullptr && i < std::min(colors->ColorCount, 256); ++i) {
    palette[i][0] = colors->Colors[i].Red;
    palette[i][1] = colors->Colors[i].Green;
    palette[i][2] = colors->Colors[i].Blue;
  }

  if (frame.Width != width || frame.Height != height) {  // what the frame does not cover
    const std::uint8_t* color = palette[std::max(transparent, 0)];
    for (std::int64_t i = 0; i < width * height; ++i) std::memcpy(pixels + 3 * i, color, 3);
  }
  std::vector<GifPixelType> indices(static_cast<std::size_t>(frame.Width));
  for (const std::int64_t y : order_of_rows(frame.Height, frame.Interlace)) {
    if (frame.Width > 0 && DGifGetLine(reader.gif, indices.data(), frame.Width) == GIF_ERROR)
      fail_reading(source, reader, reader.gif->Error);
    std::uint8_t* out = pixels + 3 * ((frame.Top + y) * width + frame.Left);
    for (std::size_t x = 0; x < indices.size(); ++x) std::memcpy(out + 3 * x, palette[indices[x]], 3);
  }
  return decoded;
}

}  // namespace heed::image
