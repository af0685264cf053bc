// Recordings as samples: WAV, FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF and W64 become mono samples at the
// rate that a model wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// What a recording may ask for. What the file's header declares is checked before anything is decoded.
struct SoundLimits {
  double seconds = 24 * 3600;
  std::int64_t channels = 64;
  std::int64_t least_rate = 1000, most_rate = 768'000;  ///< of the file, in Hz
  std::size_t piped_bytes = std::size_t{4} << 30;  ///< of a pipe; above 16 MiB they wait in a temporary file
};

struct SoundOptions {
  std::int64_t rate = 16'000;  ///< of the samples returned, in Hz, from 1000 to 768000
  SoundLimits limits = {};
  /// Receives a line about a recording that is cut, which is then read as far as it goes. Without it, that is
  /// an error.
  std::function<void(const std::string& message)> on_warning = {};
};

/// What the header of a file says; of one with several parts, that of the first.
struct SoundInfo {
  std::string format;                  ///< such as "WAV (Microsoft), Signed 16 bit PCM"
  std::int64_t rate = 0;               ///< samples per second and channel
  std::int64_t channels = 0;           ///< before they are mixed
  std::optional<std::int64_t> frames;  ///< samples per channel; of an MP3 an estimate, or unknown
};

/// Reads a recording block by block, in memory that does not grow with its length.
///
/// The kind of the file is found from its first bytes, never from its name. WAV, AIFF, AU, CAF and W64 (of 8,
/// 16, 24 and 32 bits, float, double, A-law, µ-law and ADPCM), FLAC and Ogg (Vorbis, Opus, FLAC) are decoded
/// by libsndfile, MP3 by libmpg123. Every part of joined MP3 files and chained Ogg files is read; lengths in
/// headers are hints. Integers become fractions of full scale, in [-1, 1). Channels are mixed to their mean.
/// If the file has another rate, libsoxr resamples (quality HQ); N samples at rate r become ceil(N · rate /
/// r). So the samples are those of transformers' `load_audio` and of `librosa.load(path, sr=rate)`.
///
/// Errors: every member that reads throws Error naming the file if it cannot be read, is no such file, is
/// damaged or empty, has samples that are infinite or not a number, or exceeds the limits. A file that is cut
/// is an error without `on_warning`: in the constructor where its header says its size, else at the end.
/// Threads: one at a time; several readers are independent.
class SoundReader {
 public:
  /// A regular file is read as it is needed. A pipe or device, such as /dev/stdin, is read to its end first.
  explicit SoundReader(const std::filesystem::path& path, const SoundOptions& options = {});
  /// The same from the bytes of a file, which must outlive the reader. Messages begin with `name`.
  SoundReader(std::string_view bytes, const std::string& name, const SoundOptions& options = {});
  ~SoundReader();
  SoundReader(SoundReader&&) noexcept;
  SoundReader& operator=(SoundReader&&) noexcept;

  /// Writes the next samples and returns their number: all of `samples`, but fewer at the end, then 0.
  std::size_t read(std::span<float> samples);

  /// Begins again with the first sample.
  void rewind();

  const SoundInfo& info() const;
  std::int64_t rate() const;        ///< of the samples returned, in Hz
  const std::string& name() const;  ///< of the file, as messages name it

 private:
  struct Source;
  std::unique_ptr<Source> source_;
};

/// Returns a whole recording, f32[samples] at `options.rate` (16 kHz: 230 MB an hour). Errors as SoundReader.
Tensor load_sound(const std::filesystem::path& path, const SoundOptions& options = {});

/// The same from the bytes of a file. Messages begin with `name`.
Tensor decode_sound(std::string_view bytes, const std::string& name, const SoundOptions& options = {});

}  // namespace heed
