// A model of speech of any kind with its settings.
#include "heed/error.h"
#include "heed/models/find_model.h"
#include "heed/models/kind.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"
#include "tasks/speech.h"

namespace heed {

struct Transcriber::State {
  const Tokenizer& tokenizer;
  SoundProcessor processor;
  const EncoderModel* ctc = nullptr;
  const EncoderDecoderModel* decoder = nullptr;
  std::optional<SpeechSettings> whisper = {};
  GenerationOptions generation = {};  // of the others that decode
};

Transcriber::Transcriber(const Model& model, const Tokenizer& tokenizer, const std::string& directory,
                         std::vector<std::string>* unused)
    : Transcriber(model, tokenizer, model_files(directory), unused) {}

Transcriber::Transcriber(const Model& model, const Tokenizer& tokenizer, const ModelFiles& files,
                         std::vector<std::string>* unused) {
  State state{tokenizer, load_sound_processor(files)};
  state.ctc = as<EncoderModel>(model);
  state.decoder = as<EncoderDecoderModel>(model);
  if (state.decoder != nullptr && model.input().kind == InputKind::waveform)
    state.generation = load_generation_options(files, unused);
  else if (state.decoder != nullptr)
    state.whisper = load_speech_settings(files, *state.decoder, unused);
  else if (state.ctc == nullptr || state.ctc->head() != EncoderHead::ctc)
    throw Error(files.where() + ": expected a model of speech, got a " + model.family() + " model");
  if (model.input().kind == InputKind::waveform && state.processor.type() != "Wav2Vec2FeatureExtractor")
    throw Error(files.where() + ": expected Wav2Vec2FeatureExtractor for a model of samples, got " +
                state.processor.type() + " (preprocessor_config.json is another model's)");
  state_ = std::make_shared<const State>(std::move(state));
}

std::int64_t Transcriber::rate() const { return state_->processor.rate(); }

const SpeechSettings* Transcriber::settings() const { return state_->whisper ? &*state_->whisper : nullptr; }

void Transcriber::check(const TranscribeOptions& options) const {
  if (state_->whisper) return tasks::check_whisper_options(*state_->whisper, options);
  tasks::check_sample_options(state_->ctc != nullptr ? state_->ctc->family() : state_->decoder->family(),
                              state_->ctc == nullptr, options);
}

Transcript Transcriber::operator()(SoundReader reader, const TranscribeOptions& options) const {
  const State& s = *state_;
  if (s.ctc != nullptr) return transcribe(*s.ctc, s.tokenizer, s.processor, std::move(reader), options);
  if (s.whisper)
    return transcribe(*s.decoder, s.tokenizer, *s.whisper, s.processor, std::move(reader), options);
  return transcribe(*s.decoder, s.tokenizer, s.generation, s.processor, std::move(reader), options);
}

}  // namespace heed
