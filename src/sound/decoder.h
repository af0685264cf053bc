// A sound file as mono samples at its own rate, by libsndfile.
#pragma once

#include <sndfile.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "heed/sound/sound.h"
#include "sound/byte_source.h"

namespace heed::sound {

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

}  // namespace heed::sound
