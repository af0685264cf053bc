// Decoding of sound files: their bytes, their kind, mono samples at their own rate by libsndfile and
// libmpg123, and at another rate by libsoxr.
#pragma once

#include <soxr.h>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/input_file.h"
#include "files/spilled_array.h"
#include "heed/sound/sound.h"

namespace heed::sound {

// The bytes of a recording, at any position: decoders seek.
class ByteSource {
 public:
  /// A regular file stays where it is. Anything else is read to its end; throws Error for more than
  /// `piped_limit` bytes.
  ByteSource(const std::filesystem::path& path, std::size_t piped_limit);
  /// `bytes` must outlive this.
  ByteSource(std::string_view bytes, std::string name);

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  /// Copies bytes from `position` on and returns their number, fewer than asked at the end. Throws Error if
  /// the file cannot be read.
  std::size_t read(std::uint64_t position, std::span<char> bytes);
  /// Returns up to `count` bytes from `position` on.
  std::string read(std::uint64_t position, std::size_t count);

 private:
  void fill_buffer(std::uint64_t position);

  std::string name_;
  std::uint64_t size_ = 0;
  std::unique_ptr<InputFile> file_;
  std::vector<char> buffer_;  // bytes of the file from buffer_begin_ on
  std::uint64_t buffer_begin_ = 0;
  SpilledBytes piped_;
  std::string_view memory_;  // of what is no regular file
};

/// What the first bytes of a recording say of it.
struct SoundFormat {
  enum class Decoder { sndfile, ogg, mpg123 };
  Decoder decoder = Decoder::sndfile;
  std::optional<std::int64_t> frames = {};  // as the header of a FLAC file says
  bool goes_on = false;                     // past the end that the header of an MP3 file says
  std::string cut = {};                     // what is missing, if the file is shorter than its headers say
  // Bytes that a decoder must see in the place of a length that is wrong, or that is only a hint.
  std::uint64_t mended_at = 0;
  std::string mended = {};
};

/// Throws Error unless the first bytes are those of a kind of file that heed reads, so that no other reader
/// of libsndfile sees them.
SoundFormat sound_format(ByteSource& source);

/// Where the link of a chained Ogg file ends that begins at `begin`: at the next one, or with the file.
std::uint64_t end_of_ogg_link(ByteSource& source, std::uint64_t begin);

// The bytes that the callbacks of libsndfile and libmpg123 read: a part of a recording. Exceptions must not
// pass through these libraries, and are kept.
struct DecodedBytes {
  explicit DecodedBytes(ByteSource from) : source(std::move(from)), end(source.size()) {}

  std::int64_t read(void* to, std::int64_t count) noexcept;
  std::int64_t seek(std::int64_t offset, int whence) noexcept;
  void rethrow() const {
    if (failure) std::rethrow_exception(failure);
  }

  ByteSource source;
  std::uint64_t begin = 0, end;
  std::uint64_t position = 0;  // from begin on
  std::uint64_t mended_at = 0;
  std::string mended;
  std::exception_ptr failure;
};

// The frames of a recording as a library decodes them. Joined and chained files have several parts, each with
// a rate and a number of channels of its own.
class FrameStream {
 public:
  virtual ~FrameStream() = default;
  struct Frames {
    std::size_t count = 0;    // 0: the part ends
    std::string damage = {};  // why it ends before its time
  };
  /// Goes to the first part, or to the next one, and says what it is. False if there is none, or if it cannot
  /// be decoded: `damage` then says why.
  virtual bool next_part(SoundInfo& info, std::string& damage) = 0;
  /// Writes frames, their channels interleaved.
  virtual Frames read(std::span<float> samples) = 0;
};

/// `bytes` must outlive the stream and not move.
std::unique_ptr<FrameStream> open_sndfile(DecodedBytes& bytes, bool is_ogg);
std::unique_ptr<FrameStream> open_mp3(DecodedBytes& bytes);

// A sound file as mono samples at its own rate.
class Decoder {
 public:
  /// Throws Error if the source is no sound file, or exceeds a limit.
  Decoder(ByteSource source, const SoundOptions& options);

  const SoundInfo& info() const { return info_; }
  const std::string& name() const { return bytes_->source.name(); }
  /// Writes the next samples, the mean of the channels, and returns their number, fewer only where those of
  /// this rate end. Throws Error for damaged data, samples that are not finite, no samples at all, and more
  /// samples than the limit.
  std::size_t read(std::span<float> samples);
  /// Goes on with samples of another rate. False if there are none.
  bool next_rate();
  /// Of the samples, and how many of it were read.
  std::int64_t rate() const { return rate_; }
  std::int64_t position() const { return position_; }
  /// Gives the source to another decoder; this one reads no more.
  ByteSource release() {
    stream_.reset();
    return std::move(bytes_->source);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void report_cut(const std::string& what);
  double seconds() const;
  bool next_part();
  void check_limits() const;
  void mix(std::span<const float> frames, std::span<float> samples) const;
  void check_end();

  SoundOptions options_;
  std::unique_ptr<DecodedBytes> bytes_;  // its address must not change
  std::unique_ptr<FrameStream> stream_;
  SoundInfo info_, part_;
  std::optional<std::int64_t> declared_;  // frames that a FLAC file has at least
  bool ended_ = false;
  std::vector<float> frames_;  // interleaved
  std::int64_t rate_ = 0, position_ = 0;
  double earlier_ = 0;  // seconds at other rates
};

/// Mono samples at another rate, by libsoxr.
class Resampler {
 public:
  /// `decoder` must outlive this.
  Resampler(Decoder& decoder, std::int64_t rate);

  /// Writes the next samples and returns their number, fewer only at the end. N samples of the decoder become
  /// ceil(N · ratio) in all. Errors as the decoder's.
  std::size_t read(std::span<float> samples);

 private:
  struct Delete {
    void operator()(soxr* resampler) const { soxr_delete(resampler); }
  };
  std::size_t supply(soxr_in_t* data, std::size_t most);

  Decoder& decoder_;
  std::int64_t rate_;
  std::unique_ptr<soxr, Delete> soxr_;
  std::vector<float> input_;
  std::exception_ptr failure_;  // exceptions must not pass through libsoxr
  std::int64_t position_ = 0;
};

}  // namespace heed::sound
