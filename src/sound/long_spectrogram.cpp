// The spectrogram of a long recording, in two passes: one for its maximum, one for the values.
#include <algorithm>
#include <limits>

#include "core/pause_point.h"
#include "heed/error.h"
#include "heed/sound/processor.h"
#include "sound/processor_config.h"

namespace heed {

LongSpectrogram::LongSpectrogram(SoundProcessor processor, SoundReader reader, const std::atomic<bool>* stop)
    : processor_(std::move(processor)),
      reader_(std::move(reader)),
      hop_(processor_.settings_->hop),
      bins_(processor_.bins()) {
  const sound::ExtractorSettings& settings = *processor_.settings_;
  if (settings.kind != sound::ProcessorKind::whisper)
    throw Error(settings.where + ": feature_extractor_type: expected WhisperFeatureExtractor, got " +
                settings.type);
  if (reader_.rate() != settings.rate) {
    throw Error("LongSpectrogram: expected a reader of " + std::to_string(settings.rate) +
                " samples a second, got " + std::to_string(reader_.rate()));
  }
  // The end of the recording is not known yet: a frame is computed once all that it needs has been read.
  maximum_ = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t kFrames = 3000;
  const std::int64_t margin = settings.frame / 2 / hop_ + 1;
  std::int64_t done = 0;
  for (bool more = true; more;) {
    if (stop != nullptr && stop->load()) throw Canceled();
    pause_point();
    const std::size_t before = held_.size();
    held_.resize(before + static_cast<std::size_t>(kFrames * hop_));
    const std::size_t got = reader_.read(std::span(held_).subspan(before));
    more = got == held_.size() - before;
    held_.resize(before + got);
    samples_ += static_cast<std::int64_t>(got);
    const std::int64_t ready = std::max(done, more ? frames() - margin : frames());
    if (!more && (samples_ <= settings.frame / 2 || samples_ < hop_)) {
      throw Error(reader_.name() + ": expected a sound of more than " +
                  std::to_string(std::max(settings.frame / 2, hop_ - 1)) + " samples, got " +
                  std::to_string(samples_));
    }
    if (ready == done) continue;
    const std::vector<float> values = logarithms(done, ready - done);
    maximum_ = std::max(maximum_, *std::max_element(values.begin(), values.end()));
    done = ready;
  }
  held_.clear();
  held_begin_ = 0;
  reader_.rewind();
}

double LongSpectrogram::frames_per_second() const {
  return static_cast<double>(processor_.settings_->rate) / static_cast<double>(hop_);
}

std::vector<float> LongSpectrogram::logarithms(std::int64_t first, std::int64_t count) {
  const sound::ExtractorSettings& settings = *processor_.settings_;
  // The transform reflects what it is given at both ends; frames there, the margin, are left out.
  const std::int64_t margin = settings.frame / 2 / hop_ + 1;
  const std::int64_t begin = std::max<std::int64_t>(0, first - margin);
  const std::int64_t end = std::min(samples_, (first + count + margin) * hop_);
  const auto unneeded =
      std::clamp<std::int64_t>(begin * hop_ - held_begin_, 0, static_cast<std::int64_t>(held_.size()));
  held_.erase(held_.begin(), held_.begin() + unneeded);
  held_begin_ += unneeded;
  const std::int64_t missing = end - held_begin_ - static_cast<std::int64_t>(held_.size());
  if (missing > 0) {
    const std::size_t before = held_.size();
    held_.resize(before + static_cast<std::size_t>(missing));
    if (reader_.read(std::span(held_).subspan(before)) < static_cast<std::size_t>(missing))
      throw Error(reader_.name() + ": expected the same sound as before, got a shorter one (did it change?)");
    if (begin * hop_ > held_begin_) return logarithms(first, count);  // what was read may be unneeded too
  }
  const std::int64_t all = first + count - begin;
  std::vector<float> values(static_cast<std::size_t>(bins_ * all));
  (*settings.spectrogram)(std::span(held_).first(static_cast<std::size_t>(end - held_begin_)), all, values);
  if (first == begin) return values;
  std::vector<float> kept;
  kept.reserve(static_cast<std::size_t>(bins_ * count));
  for (std::int64_t bin = 0; bin < bins_; ++bin) {
    const auto from = values.begin() + bin * all + (first - begin);
    kept.insert(kept.end(), from, from + count);
  }
  return kept;
}

Tensor LongSpectrogram::part(std::int64_t first, std::int64_t count) {
  const std::int64_t existing = std::clamp<std::int64_t>(frames() - first, 0, count);
  Tensor result = Tensor::zeros({1, bins_, count});
  if (existing == 0) return result;
  const std::vector<float> values = logarithms(first, existing);
  const float least = maximum_ - 8.0F;
  for (std::int64_t bin = 0; bin < bins_; ++bin) {
    float* row = result.data<float>() + bin * count;
    const float* from = values.data() + bin * existing;
    for (std::int64_t i = 0; i < existing; ++i) row[i] = (std::max(from[i], least) + 4.0F) / 4.0F;
  }
  return result;
}

}  // namespace heed
