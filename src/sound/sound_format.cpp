// Looks at the headers of WAV, FLAC, Ogg and MP3 files.
#include "sound/decoder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::sound {
namespace {

using namespace std::string_view_literals;

bool is_wav(std::string_view bytes) {
  return (bytes.starts_with("RIFF") || bytes.starts_with("RIFX") || bytes.starts_with("RF64")) &&
         bytes.size() >= 12 && bytes.substr(8, 4) == "WAVE";
}

/// A frame of MPEG audio (11 bits set, layer III), or tags before the first.
bool is_mp3(std::string_view bytes) {
  if (bytes.starts_with("ID3")) return true;
  return bytes.size() >= 2 && bytes[0] == '\xff' && (bytes[1] & 0xe6) == 0xe2;
}

/// What a file is that heed does not read, for messages. Empty: unknown.
std::string_view foreign_format(std::string_view bytes) {
  if (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp") return "an MP4 or M4A file";
  if (bytes.starts_with("\x1a\x45\xdf\xa3"sv)) return "a Matroska or WebM file";
  if (bytes.starts_with("FORM")) return "an AIFF file";
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

/// Programs that write to a pipe cannot go back to write the size; they leave a number like this or larger.
constexpr std::uint64_t kUnknownSize = 0x7fff'0000;

/// Compares the size of the chunk of samples with the bytes that there are.
void check_wav(ByteSource& source) {
  const std::string head = source.read(0, 12);
  const bool big_endian = head.starts_with("RIFX"), large = head.starts_with("RF64");
  std::uint64_t large_size = 0;  // from the chunk ds64, which comes first
  constexpr int kMostChunks = 10'000;
  std::uint64_t position = 12;
  for (int chunk = 0; chunk < kMostChunks && position + 8 <= source.size(); ++chunk) {
    const std::string header = source.read(position, 8);
    if (header.size() < 8) return;
    std::uint64_t size = number(std::string_view(header).substr(4), big_endian);
    position += 8;
    if (large && header.starts_with("ds64")) large_size = number(source.read(position + 8, 8), false);
    if (header.starts_with("data")) {
      if (large && size == 0xffff'ffff) size = large_size;
      const std::uint64_t there = source.size() - position;
      if (size <= there || (!large && size >= kUnknownSize)) return;
      throw Error(source.name() + ": expected " + std::to_string(size) +
                  " bytes of samples, as its header says, got " + std::to_string(there) +
                  " (the file is truncated, or its header wrong)");
    }
    position += size + size % 2;
  }
}

/// Looks whether the last page of an Ogg stream is whole. That it does not end the stream is no error:
/// recordings of broadcasts begin and stop anywhere.
void check_ogg(ByteSource& source) {
  constexpr std::size_t kLargestPage = 27 + 255 + 255 * 255;
  const std::uint64_t begin = source.size() > kLargestPage ? source.size() - kLargestPage : 0;
  const std::string bytes = source.read(begin, kLargestPage);
  const std::size_t page = bytes.rfind("OggS");
  if (page == std::string::npos) return;
  const std::string_view header = std::string_view(bytes).substr(page);
  std::size_t size = 27;
  if (header.size() > 26) {
    const auto segments = static_cast<unsigned char>(header[26]);
    size += segments;
    for (const char bytes_of_segment : header.substr(27, segments)) {
      size += static_cast<unsigned char>(bytes_of_segment);
    }
  }
  if (size > header.size()) {
    throw Error(source.name() + ": expected a last page of " + std::to_string(size) + " bytes, got " +
                std::to_string(header.size()) + " (the file is truncated)");
  }
}

/// Compares the size in the Xing or Info tag, which most encoders write into the first frame, with the bytes
/// that there are. Encoders count a little differently.
void check_mp3(ByteSource& source) {
  std::uint64_t begin = 0;
  const std::string tag = source.read(0, 10);
  if (tag.starts_with("ID3") && tag.size() == 10) {  // its size has seven bits a byte
    for (int i = 6; i < 10; ++i) begin = begin << 7 | (static_cast<unsigned char>(tag[i]) & 0x7f);
    begin += 10;
  }
  const std::string frame = source.read(begin, 192);
  const std::size_t xing = std::min(frame.find("Xing"), frame.find("Info"));
  if (xing == std::string::npos || xing + 16 > frame.size()) return;
  const std::string_view fields = std::string_view(frame).substr(xing + 4);
  const bool has_frames = (fields[3] & 1) != 0, has_bytes = (fields[3] & 2) != 0;
  if (!has_bytes) return;
  const std::uint64_t size = number(fields.substr(has_frames ? 8 : 4, 4), true);
  const std::uint64_t there = source.size() - begin;
  if (size > there && size - there > size / 100) {
    throw Error(source.name() + ": expected " + std::to_string(size) + " bytes, as its header says, got " +
                std::to_string(there) + " (the file is truncated)");
  }
}

}  // namespace

void check_format(ByteSource& source) {
  const std::string bytes = source.read(0, 16);
  if (is_wav(bytes)) return check_wav(source);
  if (bytes.starts_with("OggS")) return check_ogg(source);
  if (is_mp3(bytes)) return check_mp3(source);
  if (bytes.starts_with("fLaC")) return;
  const std::string_view foreign = foreign_format(bytes);
  throw Error(source.name() + ": expected a sound file (WAV, FLAC, Ogg or MP3), got " +
              (bytes.empty()     ? "an empty file"
               : foreign.empty() ? beginning(bytes)
                                 : std::string(foreign) + " (convert it: ffmpeg -i FILE sound.wav)"));
}

}  // namespace heed::sound
