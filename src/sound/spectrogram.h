// Log-mel spectrograms: power spectra of overlapping frames, summed into bands, as logarithms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// Triangular filters that sum a power spectrum into bands of equal width on the mel scale.
class MelFilters {
 public:
  /// Filters from 0 to 8000 Hz on Slaney's mel scale (linear below 1000 Hz, logarithmic above), triangles in
  /// Hz of area 1 (as weights per Hz). The spectrum has `fft_size` / 2 + 1 values at rates from 0 to rate
  /// / 2.
  static MelFilters slaney(std::int64_t filters, std::int64_t fft_size, std::int64_t rate);
  /// Filters from 20 Hz to rate / 2 on Kaldi's mel scale, 1127 ln(1 + f / 700), triangles in mels of
  /// height 1.
  static MelFilters kaldi(std::int64_t filters, std::int64_t fft_size, std::int64_t rate);

  std::size_t count() const { return begins_.size(); }
  /// Writes the weighted sums of the spectrum `power`, count() of them.
  void apply(std::span<const double> power, std::span<double> sums) const;

 private:
  MelFilters(std::span<const double> frequencies, std::span<const double> corners);
  void scale(std::size_t filter, double factor);

  // Of each filter, the weights that are not 0: those of the spectrum's values from begins_[i] on, which are
  // weights_[offsets_[i]] to weights_[offsets_[i + 1]].
  std::vector<std::size_t> begins_, offsets_;
  std::vector<double> weights_;
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
