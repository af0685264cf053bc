// Preprocessing of recordings: log-mel spectrograms or normalized samples, as the model's
// `preprocessor_config.json` says.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/sound/sound.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class ModelFiles;

namespace sound {
struct ExtractorSettings;
}

/// The inputs of a model of sound.
struct SoundInputs {
  /// f32. WhisperFeatureExtractor: [batch, bins, frames], transformers' `input_features`.
  /// ASTFeatureExtractor: [batch, frames, bins]; Wav2Vec2FeatureExtractor: [batch, samples]; both
  /// transformers' `input_values`.
  Tensor features;
  /// i64[batch, frames], of samples [batch, samples]: 0 for padding. Undefined if not asked for; a model
  /// that was trained without it must not get it.
  Tensor attention_mask;
};

/// Options of one call that override the configuration, as the arguments of transformers do.
struct SoundCall {
  /// WhisperFeatureExtractor: pads to the longest sound and cuts nothing (`padding="longest",
  /// truncation=False`), instead of padding and cutting to `chunk_length`.
  bool whole = false;
  /// WhisperFeatureExtractor: normalizes the samples to mean 0 and variance 1 first.
  bool normalize = false;
  /// Whether there is an attention mask; by default, what the configuration says.
  std::optional<bool> attention_mask = {};
};

/// Threads: several may use one object at once.
class SoundProcessor {
 public:
  /// Returns the inputs for sounds f32[samples] at rate(), in their order.
  ///
  /// WhisperFeatureExtractor. Samples are padded with `padding_value` or cut to `chunk_length` seconds.
  /// Short-time Fourier transform: frames of `n_fft` samples every `hop_length`, centered, the ends
  /// reflected, times a periodic Hann window; the last frame is dropped. x = log10(max(1e-10, mel(|·|²)))
  /// with `feature_size` triangular filters from 0 to 8000 Hz on Slaney's scale, of equal area. Output:
  /// (max(x, max(x) - 8) + 4) / 4, the inner maximum over all frames of a sound.
  ///
  /// ASTFeatureExtractor, Kaldi's filter banks: frames of 400 samples every 160, the mean removed,
  /// preemphasis 0.97, symmetric Hann window, padded to 512; log(max(2^-23, mel(|·|²))) with `num_mel_bins`
  /// filters from 20 to 8000 Hz. `max_length` frames, the missing ones 0; then (x - mean) / (2 · std) if
  /// `do_normalize`.
  ///
  /// Wav2Vec2FeatureExtractor (also Moonshine, HuBERT, WavLM): the samples, padded to the longest sound. If
  /// `do_normalize`: (x - mean(x)) / √(var(x) + 1e-7), padding left out if there is an attention mask.
  ///
  /// Features equal transformers' within 1e-4. Throws Error for no sounds, another dtype or shape, a sound
  /// that is too short for one frame, samples that are not finite, and a SoundCall that does not apply.
  SoundInputs operator()(std::span<const Tensor> sounds, const SoundCall& call = {}) const;
  /// The same for one sound; the batch is 1.
  SoundInputs operator()(const Tensor& sound, const SoundCall& call = {}) const {
    return (*this)(std::span(&sound, 1), call);
  }

  /// transformers' name of the class, such as "WhisperFeatureExtractor".
  const std::string& type() const;
  /// Samples per second of the sounds, as the configuration says.
  std::int64_t rate() const;
  /// Rows of a spectrogram; 0 if the result is samples.
  std::int64_t bins() const;
  /// The samples that the model takes at once: `chunk_length` seconds, or `max_length` frames. Nullopt: any
  /// number.
  std::optional<std::int64_t> window() const;

 private:
  friend SoundProcessor load_sound_processor(const ModelFiles&);
  friend class SoundWindows;
  friend class LongSpectrogram;
  explicit SoundProcessor(std::shared_ptr<const sound::ExtractorSettings> settings)
      : settings_(std::move(settings)) {}

  std::shared_ptr<const sound::ExtractorSettings> settings_;
};

/// Reads `feature_extractor` in `processor_config.json` or, if that is missing, `preprocessor_config.json` of
/// a model's directory. The class is that of `feature_extractor_type`, or else that of the `model_type` in
/// config.json: ASTFeatureExtractor, Wav2Vec2FeatureExtractor or WhisperFeatureExtractor. Settings that the
/// file lacks are the defaults of that class.
///
/// Throws Error naming the file, and the key if possible, for a missing file, another class, a value out of
/// range, a key that heed does not know, and `dither` other than 0 (noise).
SoundProcessor load_sound_processor(const std::filesystem::path& directory);
SoundProcessor load_sound_processor(const ModelFiles& model);

/// A part of a recording.
struct SoundWindow {
  SoundInputs inputs;  ///< the batch is 1
  double start = 0;    ///< in seconds from the beginning of the recording
  double seconds = 0;  ///< of sound in it, without padding
};

/// The inputs of a long recording, window by window, in the memory of one window. Each window is processed
/// separately, as transformers does with a recording that was cut. Threads: one at a time.
class SoundWindows {
 public:
  /// `seconds` is the length of a window; by default that of SoundProcessor::window(). Throws Error if the
  /// reader has another rate than the processor, or if there is neither.
  SoundWindows(SoundProcessor processor, SoundReader reader, std::optional<double> seconds = std::nullopt);

  /// Returns the next window, or nullopt at the end. A rest at the end that is too short for one frame is
  /// left out. Errors as SoundReader::read().
  std::optional<SoundWindow> next();

 private:
  SoundProcessor processor_;
  SoundReader reader_;
  std::vector<float> samples_;  // of one window
  std::int64_t position_ = 0;   // in samples
};

/// The log-mel spectrogram of a recording of any length, part by part, in the memory of one part. The result
/// equals that of SoundCall::whole: values are relative to the maximum of the whole recording, which a first
/// pass finds. Threads: one at a time.
class LongSpectrogram {
 public:
  /// Reads the recording once. Throws Error for another processor than WhisperFeatureExtractor, a reader of
  /// another rate, a recording that is too short for one frame, and as SoundReader::read(). `stop`, once
  /// true, cancels: the call throws Canceled.
  LongSpectrogram(SoundProcessor processor, SoundReader reader, const std::atomic<bool>* stop = nullptr);

  /// The number of frames in all.
  std::int64_t frames() const { return samples_ / hop_; }
  double frames_per_second() const;
  /// Returns frames first, ..., first + count - 1, f32[1, bins, count]; those past the end are 0. `first`
  /// must not be less than in the call before. Errors as SoundReader::read().
  Tensor part(std::int64_t first, std::int64_t count);

 private:
  /// Logarithms of the same frames, all of which exist; [bins, count].
  std::vector<float> logarithms(std::int64_t first, std::int64_t count);

  SoundProcessor processor_;
  SoundReader reader_;
  std::int64_t hop_, bins_;
  std::int64_t samples_ = 0;  // of the recording
  float maximum_ = 0;
  std::vector<float> held_;  // samples from held_begin_ on
  std::int64_t held_begin_ = 0;
};

}  // namespace heed
