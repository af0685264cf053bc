// The settings of a processor of sound, and reading them from preprocessor_config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sound/spectrogram.h"

namespace heed {
class ModelFiles;
}

namespace heed::sound {

enum class ProcessorKind : std::uint8_t {
  whisper,   ///< WhisperFeatureExtractor: log-mel spectrogram relative to its maximum
  kaldi,     ///< ASTFeatureExtractor: Kaldi's filter banks
  waveform,  ///< Wav2Vec2FeatureExtractor: the samples
};

struct ExtractorSettings {
  std::string type;   // transformers' name of the class
  std::string where;  // the file, for messages
  ProcessorKind kind = ProcessorKind::waveform;
  std::int64_t rate = 16'000;
  float padding_value = 0;
  bool attention_mask = false;
  bool do_normalize = false;
  double mean = 0, std = 1;         // of the spectrogram (kaldi)
  std::int64_t window = 0;          // samples of a model of limited length (whisper, kaldi), else 0
  std::int64_t hop = 0, frame = 0;  // samples
  std::int64_t most_frames = 0;     // of the window
  std::optional<Spectrogram> spectrogram = {};  // whisper, kaldi
};

std::shared_ptr<const ExtractorSettings> load_processor_settings(const ModelFiles& model);

}  // namespace heed::sound
