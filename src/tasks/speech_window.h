// One window of a recording, transcribed: what attention to speech is drawn of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/tasks/transcribe.h"
#include "heed/tensor.h"

namespace heed::tasks {

struct SpeechWindow {
  Tensor features;  ///< f32[1, bins, frames], as the encoder reads them
  std::vector<std::int64_t> start =
      {};  ///< what the decoder reads before the text, <|notimestamps|> included
  std::vector<TranscribedWord> words = {};
  double offset = 0, seconds = 0;  ///< where the window begins, and the length of the sound in it
  double recording = 0;            ///< seconds of the whole recording
  double seconds_per_frame = 0;
};

/// Transcribes the window that begins at `start`, in seconds, with the times of its words: what transcribe()
/// makes of a window there without text before it. There are no words in silence. Errors as transcribe(), and
/// of fail_at_end().
SpeechWindow transcribe_window(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                               const SpeechSettings& settings, const SoundProcessor& processor,
                               SoundReader reader, double start, const TranscribeOptions& options = {});

/// A window of a recording as a model of samples heard it.
struct HeardSamples {
  Tensor values;                          ///< f32[1, samples], as the encoder reads them
  std::vector<std::int64_t> start = {};   ///< what the decoder reads before the text
  std::vector<std::int64_t> tokens = {};  ///< of the text, without the end token; none in silence
  double offset = 0, seconds = 0;         ///< where the window begins, and its length
  bool ends = true;                       ///< whether it reaches the end of the recording
};

/// The same with a model that reads samples and decodes (Moonshine): what transcribe() makes of a window that
/// begins there.
HeardSamples transcribe_window(const EncoderDecoderModel& model, const GenerationOptions& generation,
                               const SoundProcessor& processor, SoundReader reader, double start,
                               const TranscribeOptions& options = {});

/// Throws Error for a start beyond the end of a recording of so many seconds.
[[noreturn]] void fail_at_end(const std::string& name, double seconds, double start);

}  // namespace heed::tasks
