// The small Whisper of tests/fixtures/speech.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"

namespace heed {

inline const std::filesystem::path kSpeech = std::filesystem::path(HEED_FIXTURES) / "speech";

struct SpeechFixture {
  std::unique_ptr<Model> loaded = load_model(kSpeech);
  const EncoderDecoderModel& model = dynamic_cast<const EncoderDecoderModel&>(*loaded);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kSpeech);
  SpeechSettings settings = load_speech_settings(kSpeech.string(), model);
  SoundProcessor processor = load_sound_processor(kSpeech);

  Transcript transcribe(const TranscribeOptions& options, const char* file = "tones.flac") const {
    return heed::transcribe(model, *tokenizer, settings, processor, SoundReader(kSpeech / file), options);
  }
};

}  // namespace heed
