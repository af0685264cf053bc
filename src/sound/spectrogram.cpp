// Windows, power spectra by FFT, mel bands and logarithms.
#include "sound/spectrogram.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <numbers>

#include "heed/threads.h"

namespace heed::sound {

Spectrogram::Spectrogram(const SpectrogramSettings& settings, MelFilters filters)
    : settings_(settings), filters_(std::move(filters)) {
  const auto period = static_cast<double>(settings.periodic_window ? settings.frame : settings.frame - 1);
  for (std::int64_t i = 0; i < settings.frame; ++i) {
    window_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / period));
  }
}

// One frame as the transform takes it.
void Spectrogram::cut(std::span<const float> samples, std::int64_t frame, std::span<double> out) const {
  const std::int64_t begin = frame * settings_.hop - (settings_.centered ? settings_.frame / 2 : 0);
  const auto size = static_cast<std::int64_t>(samples.size());
  for (std::int64_t i = 0; i < settings_.frame; ++i) {
    std::int64_t at = begin + i;
    if (at < 0) at = -at;
    if (at >= size) at = 2 * (size - 1) - at;
    out[static_cast<std::size_t>(i)] = samples[static_cast<std::size_t>(at)];
  }
  const std::span<double> values = out.first(window_.size());
  if (settings_.remove_mean) {
    double sum = 0;
    for (const double value : values) sum += value;
    for (double& value : values) value -= sum / static_cast<double>(values.size());
  }
  if (settings_.preemphasis != 0) {
    for (std::size_t i = values.size() - 1; i > 0; --i) values[i] -= settings_.preemphasis * values[i - 1];
    values[0] *= 1 - settings_.preemphasis;
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= window_[i];
}

void Spectrogram::operator()(std::span<const float> samples, std::int64_t frames,
                             std::span<float> out) const {
  const auto half = static_cast<std::size_t>(settings_.fft_size / 2);
  const std::int64_t count = bands();
  constexpr std::int64_t kGrain = 32;  // frames; each takes some microseconds
  parallel_for(frames, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const kissfft<double> fft(half, false);  // of its own: odd factors use a buffer in it
    std::vector<double> frame(2 * half, 0.0), power(half + 1), sums(filters_.count());
    std::vector<std::complex<double>> spectrum(half);
    for (std::int64_t f = begin; f < end; ++f) {
      cut(samples, f, frame);
      fft.transform_real(frame.data(), spectrum.data());
      power[0] = spectrum[0].real() * spectrum[0].real();  // the first holds two real ones
      power[half] = spectrum[0].imag() * spectrum[0].imag();
      for (std::size_t k = 1; k < half; ++k) power[k] = std::norm(spectrum[k]);
      filters_.apply(power, sums);
      for (std::int64_t band = 0; band < count; ++band) {
        const double sum = std::max(sums[static_cast<std::size_t>(band)], settings_.floor);
        const std::int64_t at = settings_.bands_first ? band * frames + f : f * count + band;
        out[static_cast<std::size_t>(at)] =
            static_cast<float>(settings_.base_10 ? std::log10(sum) : std::log(sum));
      }
    }
  });
}

}  // namespace heed::sound
