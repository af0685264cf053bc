// Decoding of sound files: their bytes, their kind, mono samples at their own rate by libsndfile, and at
// another rate by libsoxr.
#pragma once

#include <sndfile.h>
#include <soxr.h>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
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

// Which kind of file a recording is, and whether it is whole.

/// Throws Error unless the first bytes are those of a WAV, FLAC, Ogg or MP3 file, so that no other reader of
/// libsndfile sees them. Also throws for a WAV, Ogg or MP3 file that is shorter than its headers say, which
/// libsndfile would decode as far as it goes. (Of FLAC, the decoder counts the samples.)
void check_format(ByteSource& source);

// A sound file as mono samples at its own rate.
class Decoder {
 public:
  /// Throws Error if the source is no sound file, or exceeds a limit.
  Decoder(ByteSource source, const SoundLimits& limits);

  const SoundInfo& info() const { return info_; }
  const std::string& name() const { return bytes_->source.name(); }
  /// Writes the next samples, the mean of the channels, and returns their number, fewer only at the end.
  /// Throws Error for damaged data, samples that are not finite, no samples at all, a FLAC file that ends too
  /// early, and more samples than the limit.
  std::size_t read(std::span<float> samples);
  /// Gives the source to another decoder; this one reads no more.
  ByteSource release() {
    file_.reset();
    return std::move(bytes_->source);
  }
  /// The number of samples that were read.
  std::int64_t position() const { return position_; }

 private:
  struct Bytes {  // what libsndfile's callbacks see; its address must not change
    explicit Bytes(ByteSource from) : source(std::move(from)) {}
    ByteSource source;
    std::uint64_t position = 0;
    std::exception_ptr failure;  // exceptions must not pass through libsndfile
  };
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  static SF_VIRTUAL_IO callbacks();
  [[noreturn]] void fail(const std::string& what) const;
  void check_limits() const;
  void mix(std::span<const float> frames, std::span<float> samples) const;
  void check_end() const;

  SoundLimits limits_;
  std::unique_ptr<Bytes> bytes_;
  std::unique_ptr<SNDFILE, Close> file_;
  SoundInfo info_;
  bool has_exact_length_ = false;
  std::vector<float> frames_;  // interleaved
  std::int64_t position_ = 0;
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
