// Looks at the headers of recordings: which kind they are, and whether they are whole.
#include "sound/decoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::sound {
namespace {

using namespace std::string_view_literals;

/// A frame of MPEG audio (11 bits set, layer III), or tags before the first.
bool is_mp3(std::string_view bytes) {
  if (bytes.starts_with("ID3")) return true;
  return bytes.size() >= 2 && bytes[0] == '\xff' && (bytes[1] & 0xe6) == 0xe2;
}

/// What a file is that heed does not read, for messages. Empty: unknown.
std::string_view foreign_format(std::string_view bytes) {
  if (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp") return "an MP4 or M4A file";
  if (bytes.starts_with("\x1a\x45\xdf\xa3"sv)) return "a Matroska or WebM file";
  if (bytes.starts_with("FORM")) return "an IFF file";
  if (bytes.starts_with("\x30\x26\xb2\x75"sv)) return "a WMA file";
  if (bytes.starts_with("#!AMR")) return "an AMR file";
  if (bytes.size() >= 2 && bytes[0] == '\xff' && (bytes[1] & 0xf6) == 0xf0) return "an AAC stream";
  return {};
}

/// The first bytes as text: other than printable ASCII becomes a dot.
std::string beginning(std::string_view bytes) {
  std::string shown(bytes.substr(0, 12));
  for (char& c : shown) {
    if (c < ' ' || c > '~' || c == '"') c = '.';
  }
  return "a file that begins with \"" + shown + "\"";
}

std::uint64_t number(std::string_view bytes, bool big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t place = big_endian ? i : bytes.size() - 1 - i;
    value = value << 8 | static_cast<unsigned char>(bytes[place]);
  }
  return value;
}

/// Files of chunks: each has an id, a size and its contents. One of them has the samples.
struct ChunkLayout {
  std::string_view begins, kind;  // the first bytes, and those at kind_at
  std::size_t kind_at;
  std::size_t header;  // bytes before the first chunk
  std::string_view samples;
  std::size_t id, size;  // bytes of a chunk's id and of its size
  bool big_endian;
  std::size_t counted;  // bytes of id and size that the size counts
  std::size_t aligned;
};

constexpr std::array kChunkLayouts{
    ChunkLayout{"RIFF"sv, "WAVE"sv, 8, 12, "data"sv, 4, 4, false, 0, 2},
    ChunkLayout{"RIFX"sv, "WAVE"sv, 8, 12, "data"sv, 4, 4, true, 0, 2},
    ChunkLayout{"RF64"sv, "WAVE"sv, 8, 12, "data"sv, 4, 4, false, 0, 2},
    ChunkLayout{"FORM"sv, "AIFF"sv, 8, 12, "SSND"sv, 4, 4, true, 0, 2},
    ChunkLayout{"FORM"sv, "AIFC"sv, 8, 12, "SSND"sv, 4, 4, true, 0, 2},
    ChunkLayout{"caff"sv, ""sv, 0, 8, "data"sv, 4, 8, true, 0, 1},
    ChunkLayout{"riff\x2e\x91\xcf\x11"sv, ""sv, 0, 40, "data"sv, 16, 8, false, 24, 8},  // W64
};

const ChunkLayout* chunk_layout(std::string_view bytes) {
  const auto found = std::find_if(kChunkLayouts.begin(), kChunkLayouts.end(), [&](const ChunkLayout& layout) {
    return bytes.starts_with(layout.begins) && bytes.size() >= layout.kind_at &&
           bytes.substr(layout.kind_at).starts_with(layout.kind);
  });
  return found == kChunkLayouts.end() ? nullptr : &*found;
}

/// Programs that write to a pipe cannot go back to write the size; they leave 0, or a number like this or
/// larger.
bool is_unknown_size(std::uint64_t size, std::size_t bytes) {
  return size >= (bytes == 4 ? 0x7fff'0000 : std::uint64_t{1} << 62);
}

std::string shorter(std::uint64_t size, const char* what, std::uint64_t there) {
  return "expected " + std::to_string(size) + " bytes" + what + ", as its header says, got " +
         std::to_string(there) + " (the file is truncated, or its header wrong)";
}

/// A size as a chunk has it, at most the largest.
std::string size_field(std::uint64_t size, const ChunkLayout& layout) {
  if (layout.size == 4) size = std::min<std::uint64_t>(size, 0xffff'ffff);
  std::string bytes;
  for (std::size_t i = 0; i < layout.size; ++i) {
    const std::size_t place = layout.big_endian ? layout.size - 1 - i : i;
    bytes.push_back(static_cast<char>(size >> (8 * place) & 0xff));
  }
  return bytes;
}

/// Compares the size of the samples with the bytes that there are.
SoundFormat chunked_format(ByteSource& source, const ChunkLayout& layout) {
  const std::size_t head = layout.id + layout.size;
  std::uint64_t large_size = 0;  // from the chunk ds64, which comes first
  constexpr int kMostChunks = 10'000;
  std::uint64_t position = layout.header;
  for (int chunk = 0; chunk < kMostChunks && position + head <= source.size(); ++chunk) {
    const std::string header = source.read(position, head);
    if (header.size() < head) break;
    std::uint64_t size = number(std::string_view(header).substr(layout.id), layout.big_endian);
    const bool unknown = is_unknown_size(size, layout.size);
    position += head;
    if (header.starts_with("ds64")) large_size = number(source.read(position + 8, 8), false);
    if (header.starts_with(layout.samples)) {
      const std::uint64_t there = source.size() - position;
      if (unknown && large_size > 0) {
        size = large_size;
      } else if (unknown) {
        return {};
      }
      const bool stopped =  // before the sizes were written: by the size of the file no chunk follows
          size == 0 && layout.size == 4 && number(source.read(4, 4), layout.big_endian) + 8 <= position;
      size -= std::min<std::uint64_t>(size, layout.counted);
      if (size <= there && !stopped) return {};
      return {.cut = stopped ? "" : shorter(size, " of samples", there),
              .mended_at = position - layout.size,
              .mended = size_field(there + layout.counted, layout)};
    }
    if (size > source.size()) break;
    size = std::max<std::uint64_t>(size, layout.counted) - layout.counted;
    position += (size + layout.aligned - 1) / layout.aligned * layout.aligned;
  }
  return {};
}

SoundFormat au_format(ByteSource& source) {
  const std::string header = source.read(0, 12);
  const bool big_endian = header.starts_with(".snd");
  const std::string_view fields = std::string_view(header).substr(std::min<std::size_t>(header.size(), 4));
  const std::uint64_t begin = number(fields.substr(0, 4), big_endian);
  const std::uint64_t size = number(fields.substr(std::min<std::size_t>(fields.size(), 4)), big_endian);
  const std::uint64_t there = source.size() - std::min(source.size(), begin);
  if (size <= there || is_unknown_size(size, 4)) return {};
  return {.cut = shorter(size, " of samples", there)};
}

/// STREAMINFO is the first block; the number of samples has 36 bits, of which 0 says that it is not known.
SoundFormat flac_format(ByteSource& source) {
  constexpr std::uint64_t kCount = 21;
  std::string count = source.read(kCount, 5);
  if (count.size() < 5) return {};
  const std::uint64_t frames = number(count, true) & 0xf'ffff'ffff;
  count[0] = static_cast<char>(static_cast<unsigned char>(count[0]) & 0xf0);
  std::fill(count.begin() + 1, count.end(), '\0');
  SoundFormat format{.mended_at = kCount, .mended = count};
  if (frames > 0) format.frames = static_cast<std::int64_t>(frames);
  return format;
}

constexpr std::size_t kLargestPage = 27 + 255 + 255 * 255;

/// The bytes of the page of Ogg that begins with these, of which there may be fewer.
std::size_t page_size(std::string_view header) {
  std::size_t size = 27;
  if (header.size() > 26) {
    const auto segments = static_cast<unsigned char>(header[26]);
    size += segments;
    for (const char bytes_of_segment : header.substr(27, segments)) {
      size += static_cast<unsigned char>(bytes_of_segment);
    }
  }
  return size;
}

/// Looks whether the last page of an Ogg stream is whole. That it does not end the stream is no error:
/// recordings of broadcasts begin and stop anywhere.
SoundFormat ogg_format(ByteSource& source) {
  SoundFormat format{.decoder = SoundFormat::Decoder::ogg};
  const std::uint64_t begin = source.size() > kLargestPage ? source.size() - kLargestPage : 0;
  const std::string bytes = source.read(begin, kLargestPage);
  const std::size_t page = bytes.rfind("OggS");
  if (page == std::string::npos) return format;
  const std::string_view header = std::string_view(bytes).substr(page);
  if (const std::size_t size = page_size(header); size > header.size()) {
    format.cut = "expected a last page of " + std::to_string(size) + " bytes, got " +
                 std::to_string(header.size()) + " (the file is truncated)";
  }
  return format;
}

/// Compares the size in the Xing or Info tag, which most encoders write into the first frame, with the bytes
/// that there are. Encoders count a little differently.
SoundFormat mp3_format(ByteSource& source) {
  SoundFormat format{.decoder = SoundFormat::Decoder::mpg123};
  std::uint64_t begin = 0;
  const std::string tag = source.read(0, 10);
  if (tag.starts_with("ID3") && tag.size() == 10) {  // its size has seven bits a byte
    for (int i = 6; i < 10; ++i) begin = begin << 7 | (static_cast<unsigned char>(tag[i]) & 0x7f);
    begin += 10;
  }
  const std::string frame = source.read(begin, 192);
  const std::size_t xing = std::min(frame.find("Xing"), frame.find("Info"));
  if (xing == std::string::npos || xing + 16 > frame.size()) return format;
  const std::string_view fields = std::string_view(frame).substr(xing + 4);
  const bool has_frames = (fields[3] & 1) != 0, has_bytes = (fields[3] & 2) != 0;
  if (!has_bytes) return format;
  const std::uint64_t size = number(fields.substr(has_frames ? 8 : 4, 4), true);
  const std::uint64_t there = source.size() - begin;
  if (size > there && size - there > size / 100) format.cut = shorter(size, "", there);
  format.goes_on = there > size && there - size > size / 100;
  return format;
}

}  // namespace

std::uint64_t end_of_ogg_link(ByteSource& source, std::uint64_t begin) {
  constexpr unsigned char kBeginsStream = 2;
  bool in_headers = true;  // the pages that begin streams, which are the first of a link
  for (std::uint64_t position = begin;;) {
    const std::string header = source.read(position, 27 + 255);
    if (header.size() < 27) return source.size();
    if (!header.starts_with("OggS")) {  // damaged: the next page
      const std::size_t next = source.read(position, kLargestPage).find("OggS", 1);
      position += next == std::string::npos ? kLargestPage - 3 : next;
      continue;
    }
    const bool begins = (static_cast<unsigned char>(header[5]) & kBeginsStream) != 0;
    if (begins && !in_headers) return position;
    in_headers = begins;
    position += page_size(header);
  }
}

SoundFormat sound_format(ByteSource& source) {
  const std::string bytes = source.read(0, 16);
  if (const ChunkLayout* layout = chunk_layout(bytes)) return chunked_format(source, *layout);
  if (bytes.starts_with(".snd") || bytes.starts_with("dns.")) return au_format(source);
  if (bytes.starts_with("OggS")) return ogg_format(source);
  if (is_mp3(bytes)) return mp3_format(source);
  if (bytes.starts_with("fLaC")) return flac_format(source);
  const std::string_view foreign = foreign_format(bytes);
  throw Error(source.name() + ": expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64), got " +
              (bytes.empty()     ? "an empty file"
               : foreign.empty() ? beginning(bytes)
                                 : std::string(foreign) + " (convert it: ffmpeg -i FILE sound.wav)"));
}

}  // namespace heed::sound
