// The filters of Slaney and of Kaldi.
#include "sound/spectrogram.h"

#include <algorithm>
#include <cmath>

namespace heed::sound {
namespace {

constexpr double kLinearEnd = 1000.0;  // Hz; 15 mels on Slaney's scale
constexpr double kLinearMels = 15.0;
const double kLogStep = std::log(6.4) / 27.0;

double slaney_mel(double hertz) {
  if (hertz < kLinearEnd) return 3.0 * hertz / 200.0;
  return kLinearMels + std::log(hertz / kLinearEnd) / kLogStep;
}

double slaney_hertz(double mel) {
  if (mel < kLinearMels) return 200.0 * mel / 3.0;
  return kLinearEnd * std::exp(kLogStep * (mel - kLinearMels));
}

double kaldi_mel(double hertz) { return 1127.0 * std::log(1.0 + hertz / 700.0); }

/// `count` numbers at equal distances, the first and last given.
std::vector<double> spaced(double first, double last, std::int64_t count) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(first + (last - first) * static_cast<double>(i) / static_cast<double>(count - 1));
  }
  return numbers;
}

}  // namespace

// Filter i rises from corner i to i + 1 and falls to i + 2.
MelFilters::MelFilters(std::span<const double> frequencies, std::span<const double> corners) {
  offsets_.push_back(0);
  for (std::size_t i = 0; i + 2 < corners.size(); ++i) {
    std::size_t begin = frequencies.size();
    for (std::size_t k = 0; k < frequencies.size(); ++k) {
      const double rise = (frequencies[k] - corners[i]) / (corners[i + 1] - corners[i]);
      const double fall = (corners[i + 2] - frequencies[k]) / (corners[i + 2] - corners[i + 1]);
      const double weight = std::min(rise, fall);
      if (weight <= 0) continue;
      begin = std::min(begin, k);
      weights_.push_back(weight);
    }
    begins_.push_back(begin);
    offsets_.push_back(weights_.size());
  }
}

MelFilters MelFilters::slaney(std::int64_t filters, std::int64_t fft_size, std::int64_t rate) {
  std::vector<double> corners = spaced(0, slaney_mel(8000), filters + 2);
  for (double& corner : corners) corner = slaney_hertz(corner);
  const double highest = static_cast<double>(rate / 2);  // whole, as in transformers
  MelFilters result(spaced(0, highest, fft_size / 2 + 1), corners);
  for (std::size_t i = 0; i < result.count(); ++i) result.scale(i, 2.0 / (corners[i + 2] - corners[i]));
  return result;
}

MelFilters MelFilters::kaldi(std::int64_t filters, std::int64_t fft_size, std::int64_t rate) {
  const double highest = static_cast<double>(rate / 2);
  std::vector<double> mels;
  for (std::int64_t k = 0; k <= fft_size / 2; ++k) {
    mels.push_back(
        kaldi_mel(static_cast<double>(rate) / static_cast<double>(fft_size) * static_cast<double>(k)));
  }
  return MelFilters(mels, spaced(kaldi_mel(20), kaldi_mel(highest), filters + 2));
}

void MelFilters::scale(std::size_t filter, double factor) {
  for (std::size_t j = offsets_[filter]; j < offsets_[filter + 1]; ++j) weights_[j] *= factor;
}

void MelFilters::apply(std::span<const double> power, std::span<double> sums) const {
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    const double* from = power.data() + begins_[i];
    double sum = 0;
    for (std::size_t j = offsets_[i]; j < offsets_[i + 1]; ++j) sum += weights_[j] * *from++;
    sums[i] = sum;
  }
}

}  // namespace heed::sound
