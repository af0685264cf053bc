// Triangular filters that sum a power spectrum into bands of equal width on the mel scale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed::sound {

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

}  // namespace heed::sound
