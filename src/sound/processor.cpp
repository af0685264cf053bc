// Features as transformers' extractors compute them, for whole recordings and for windows.
#include "heed/sound/processor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/error.h"
#include "heed/files/model_files.h"
#include "sound/processor_config.h"

namespace heed {

using sound::ExtractorSettings;
using sound::ProcessorKind;

namespace {

using Samples = std::span<const float>;

/// The samples of each sound, checked. `held` keeps copies of those that are not contiguous.
std::vector<Samples> samples_of(std::span<const Tensor> sounds, std::vector<Tensor>& held) {
  if (sounds.empty()) throw Error("SoundProcessor: expected at least one sound, got none");
  std::vector<Samples> all;
  for (const Tensor& sound : sounds) {
    if (!sound.defined() || sound.dtype() != DType::f32 || sound.rank() != 1 || sound.numel() == 0) {
      throw Error("SoundProcessor: expected sounds f32[samples], got " +
                  (sound.defined() ? sound.str() : "an undefined tensor"));
    }
    held.push_back(sound.contiguous());
    const Samples samples(held.back().data<float>(), static_cast<std::size_t>(sound.numel()));
    if (!std::all_of(samples.begin(), samples.end(), [](float x) { return std::isfinite(x); })) {
      throw Error("SoundProcessor: expected finite samples, got a sound with others");
    }
    all.push_back(samples);
  }
  return all;
}

/// (x - mean) / √(variance + 1e-7), the moments those of the first `length` values.
void normalize(std::span<float> values, std::size_t length) {
  const Samples counted = values.first(length);
  const auto count = static_cast<double>(length);
  double sum = 0, squares = 0;
  for (const float x : counted) sum += x;
  const double mean = sum / count;
  for (const float x : counted) squares += (x - mean) * (x - mean);
  const double scale = 1 / std::sqrt(squares / count + 1e-7);
  for (float& x : values) x = static_cast<float>((x - mean) * scale);
}

/// One row: the samples, padded or cut to the row's length.
void pad(Samples samples, float padding, std::span<float> row) {
  const std::size_t count = std::min(samples.size(), row.size());
  std::copy_n(samples.begin(), count, row.begin());
  std::fill(row.begin() + static_cast<std::ptrdiff_t>(count), row.end(), padding);
}

/// 1 where place i · `step` of a row lies in its sound, else 0; i64[batch, places].
Tensor mask_of(const std::vector<Samples>& sounds, std::int64_t places, std::int64_t step) {
  Tensor mask = Tensor::zeros({static_cast<std::int64_t>(sounds.size()), places}, DType::i64);
  std::int64_t* row = mask.data<std::int64_t>();
  for (const Samples samples : sounds) {
    const auto length = static_cast<std::int64_t>(samples.size());
    std::fill_n(row, std::min(places, (length + step - 1) / step), 1);
    row += places;
  }
  return mask;
}

std::int64_t longest(const std::vector<Samples>& sounds) {
  std::size_t length = 0;
  for (const Samples samples : sounds) length = std::max(length, samples.size());
  return static_cast<std::int64_t>(length);
}

/// The rows of a batch, one after the other.
std::span<float> row_of(const Tensor& batch, std::size_t row) {
  const auto size = static_cast<std::size_t>(batch.numel() / batch.size(0));
  return {batch.data<float>() + row * size, size};
}

Tensor whisper_features(const ExtractorSettings& settings, const std::vector<Samples>& sounds,
                        const SoundCall& call) {
  const std::int64_t length = call.whole ? longest(sounds) : settings.window;
  if (length <= settings.frame / 2 || length < settings.hop) {
    throw Error("SoundProcessor: expected sounds of more than " +
                std::to_string(std::max(settings.frame / 2, settings.hop - 1)) + " samples, got " +
                std::to_string(length));
  }
  const std::int64_t frames = length / settings.hop;
  Tensor features = Tensor::empty(
      {static_cast<std::int64_t>(sounds.size()), settings.spectrogram->bands(), frames}, DType::f32);
  std::vector<float> padded(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    pad(sounds[i], settings.padding_value, padded);
    if (call.normalize) {
      const std::size_t own = std::min(sounds[i].size(), padded.size());
      normalize(padded, own);
      std::fill(padded.begin() + static_cast<std::ptrdiff_t>(own), padded.end(), settings.padding_value);
    }
    const std::span<float> out = row_of(features, i);
    (*settings.spectrogram)(padded, frames, out);
    const float least = *std::max_element(out.begin(), out.end()) - 8.0F;
    for (float& x : out) x = (std::max(x, least) + 4.0F) / 4.0F;
  }
  return features;
}

Tensor kaldi_features(const ExtractorSettings& settings, const std::vector<Samples>& sounds) {
  Tensor features = Tensor::zeros(
      {static_cast<std::int64_t>(sounds.size()), settings.most_frames, settings.spectrogram->bands()},
      DType::f32);
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    const auto length = static_cast<std::int64_t>(sounds[i].size());
    if (length < settings.frame) {
      throw Error("SoundProcessor: expected sounds of at least " + std::to_string(settings.frame) +
                  " samples, got " + std::to_string(length));
    }
    const std::int64_t frames = std::min(settings.most_frames, 1 + (length - settings.frame) / settings.hop);
    const std::span<float> out = row_of(features, i);
    (*settings.spectrogram)(sounds[i], frames,
                            out.first(static_cast<std::size_t>(frames * settings.spectrogram->bands())));
    if (!settings.do_normalize) continue;
    const auto mean = static_cast<float>(settings.mean), scale = static_cast<float>(2 * settings.std);
    for (float& x : out) x = (x - mean) / scale;
  }
  return features;
}

Tensor waveforms(const ExtractorSettings& settings, const std::vector<Samples>& sounds, bool masked) {
  Tensor batch = Tensor::empty({static_cast<std::int64_t>(sounds.size()), longest(sounds)}, DType::f32);
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    const std::span<float> row = row_of(batch, i);
    pad(sounds[i], settings.padding_value, row);
    if (!settings.do_normalize) continue;
    const std::size_t counted = masked ? sounds[i].size() : row.size();
    normalize(row, counted);
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(counted), row.end(), settings.padding_value);
  }
  return batch;
}

}  // namespace

SoundInputs SoundProcessor::operator()(std::span<const Tensor> sounds, const SoundCall& call) const {
  const ExtractorSettings& settings = *settings_;
  if ((call.whole || call.normalize) && settings.kind != ProcessorKind::whisper) {
    throw Error(
        "SoundProcessor: expected a call without `whole` and `normalize`, which only "
        "WhisperFeatureExtractor takes, got one for " +
        settings.type);
  }
  std::vector<Tensor> held;
  const std::vector<Samples> samples = samples_of(sounds, held);
  const bool masked = call.attention_mask.value_or(settings.attention_mask);
  switch (settings.kind) {
    case ProcessorKind::whisper: {
      const Tensor features = whisper_features(settings, samples, call);
      return {features, masked ? mask_of(samples, features.size(2), settings.hop) : Tensor()};
    }
    case ProcessorKind::kaldi:
      if (call.attention_mask.value_or(false)) {
        throw Error("SoundProcessor: ASTFeatureExtractor has no attention mask (leave it out of the call)");
      }
      return {kaldi_features(settings, samples), Tensor()};
    case ProcessorKind::waveform: break;
  }
  const Tensor batch = waveforms(settings, samples, masked);
  return {batch, masked ? mask_of(samples, batch.size(1), 1) : Tensor()};
}

const std::string& SoundProcessor::type() const { return settings_->type; }
std::int64_t SoundProcessor::rate() const { return settings_->rate; }
std::int64_t SoundProcessor::bins() const {
  return settings_->spectrogram ? settings_->spectrogram->bands() : 0;
}

std::optional<std::int64_t> SoundProcessor::window() const {
  return settings_->window > 0 ? std::optional(settings_->window) : std::nullopt;
}

SoundProcessor load_sound_processor(const ModelFiles& model) {
  return SoundProcessor(sound::load_processor_settings(model));
}

SoundProcessor load_sound_processor(const std::filesystem::path& directory) {
  return load_sound_processor(ModelFiles(directory));
}

SoundWindows::SoundWindows(SoundProcessor processor, SoundReader reader, std::optional<double> seconds)
    : processor_(std::move(processor)), reader_(std::move(reader)) {
  const std::int64_t rate = processor_.rate();
  if (reader_.rate() != rate) {
    throw Error("SoundWindows: expected a reader of " + std::to_string(rate) + " samples a second, got " +
                std::to_string(reader_.rate()));
  }
  const ExtractorSettings& settings = *processor_.settings_;
  double samples = seconds ? *seconds * static_cast<double>(rate) : static_cast<double>(settings.window);
  constexpr double kMostSeconds = 3600;
  const double most =
      settings.window > 0 ? static_cast<double>(settings.window) : kMostSeconds * static_cast<double>(rate);
  const double least = settings.kind == ProcessorKind::kaldi ? static_cast<double>(settings.frame) : 1;
  if (!(samples >= least && samples <= most)) {
    throw Error("SoundWindows: seconds: expected from " + std::to_string(least / static_cast<double>(rate)) +
                " to " + std::to_string(most / static_cast<double>(rate)) + ", got " +
                (seconds ? std::to_string(*seconds) : "nothing (the model takes any number)"));
  }
  samples_.resize(static_cast<std::size_t>(samples));
}

std::optional<SoundWindow> SoundWindows::next() {
  const ExtractorSettings& settings = *processor_.settings_;
  const std::size_t count = reader_.read(samples_);
  const bool is_rest = position_ > 0 && settings.kind == ProcessorKind::kaldi &&
                       count < static_cast<std::size_t>(settings.frame);
  if (count == 0 || is_rest) return std::nullopt;
  const auto rate = static_cast<double>(settings.rate);
  SoundWindow window;
  window.start = static_cast<double>(position_) / rate;
  window.seconds = static_cast<double>(count) / rate;
  position_ += static_cast<std::int64_t>(count);
  window.inputs =
      processor_(Tensor::from(Samples(samples_).first(count), {static_cast<std::int64_t>(count)}));
  return window;
}

}  // namespace heed
