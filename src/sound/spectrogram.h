// Log-mel spectrograms: power spectra of overlapping frames, summed into bands, as logarithms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sound/mel_filters.h"

namespace heed::sound {

/// What is computed for each frame.
struct SpectrogramSettings {
  std::int64_t frame = 400;     ///< samples
  std::int64_t hop = 160;       ///< samples from one frame to the next
  std::int64_t fft_size = 400;  ///< even; a shorter frame is padded with 0
  /// Frames are centered on multiples of `hop`, with the ends of the sound reflected. Otherwise the first
  /// begins with the sound.
  bool centered = true;
  bool periodic_window = true;  ///< a Hann window of period `frame`, otherwise `frame` - 1
  bool remove_mean = false;
  double preemphasis = 0;   ///< of the sample before, the first being its own
  double floor = 1e-10;     ///< of the sums, before the logarithm
  bool base_10 = true;      ///< otherwise natural
  bool bands_first = true;  ///< the result is [bands, frames], otherwise [frames, bands]
};

/// Computed in f64 throughout: quiet bands 80 dB below loud ones are right to seven digits too.
class Spectrogram {
 public:
  Spectrogram(const SpectrogramSettings& settings, MelFilters filters);

  /// Writes the logarithms of `frames` frames from the first on. Centered frames need more than frame / 2
  /// samples; the others lie within `samples`.
  void operator()(std::span<const float> samples, std::int64_t frames, std::span<float> out) const;
  std::int64_t bands() const { return static_cast<std::int64_t>(filters_.count()); }

 private:
  void cut(std::span<const float> samples, std::int64_t frame, std::span<double> out) const;

  SpectrogramSettings settings_;
  MelFilters filters_;
  std::vector<double> window_;
};

}  // namespace heed::sound
