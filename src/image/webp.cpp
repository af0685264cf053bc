// WebP by libwebp: still images and the first frame of animations, which the library's demultiplexer finds.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "image/decoder.h"

namespace heed::image {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

/// The frame that is decoded. Releases its iterator.
struct Frame {
  WebPIterator iterator{};
  Frame() = default;
  ~Frame() { WebPDemuxReleaseIterator(&iterator); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
};

std::string_view chunk(const WebPDemuxer* demuxer, const char* kind) {
  WebPChunkIterator found{};
  std::string_view bytes;
  if (WebPDemuxGetChunk(demuxer, kind, 1, &found) != 0)
    bytes = {reinterpret_cast<const char*>(found.chunk.bytes), found.chunk.size};  // within the file's bytes
  WebPDemuxReleaseChunkIterator(&found);
  return bytes;
}

}  // namespace

Decoded decode_webp(const Source& source) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(source.bytes.data());
  WebPBitstreamFeatures features{};
  const VP8StatusCode status = WebPGetFeatures(bytes, source.bytes.size(), &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) fail_truncated(source);
  if (status != VP8_STATUS_OK) fail_damaged(source, "WebP", "its header is invalid");
  check_size(source, features.width, features.height);

  const WebPData data{bytes, source.bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemuxPartial(&data, &state));
  if (demuxer == nullptr || state == WEBP_DEMUX_PARSE_ERROR)
    fail_damaged(source, "WebP", "its chunks do not fit together");
  if (state != WEBP_DEMUX_DONE) fail_truncated(source);
  const std::int64_t frames = WebPDemuxGetI(demuxer.get(), WEBP_FF_FRAME_COUNT);
  if (frames > source.limits.frames) {
    fail(source, "expected at most " + std::to_string(source.limits.frames) + " frames, got " +
                     std::to_string(frames));
  }

  const std::int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const std::int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  Decoded decoded{new_pixels(source, width, height),
                  orientation_of(chunk(demuxer.get(), "EXIF"), chunk(demuxer.get(), "XMP "))};
  std::uint8_t* pixels = decoded.pixels.data<std::uint8_t>();
  Frame frame;
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame.iterator) == 0)
    fail_damaged(source, "WebP", "it has no frame");
  const WebPIterator& first = frame.iterator;
  if (first.width != width || first.height != height)  // the rest of the canvas is black
    std::memset(pixels, 0, static_cast<std::size_t>(3 * width * height));
  const std::int64_t offset = 3 * (first.y_offset * width + first.x_offset);
  if (offset < 0 || first.x_offset + first.width > width || first.y_offset + first.height > height)
    fail_damaged(source, "WebP", "its first frame exceeds the canvas");
  if (WebPDecodeRGBInto(first.fragment.bytes, first.fragment.size, pixels + offset,
                        static_cast<std::size_t>(3 * width * height - offset),
                        static_cast<int>(3 * width)) == nullptr)
    fail_damaged(source, "WebP", "its pixels cannot be decoded");
  return decoded;
}

}  // namespace heed::image
