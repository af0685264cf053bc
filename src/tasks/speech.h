// What the ways to transcribe share: checks of options, the windows of a recording, and the times of words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/sound/sound.h"
#include "heed/tasks/transcribe.h"
#include "heed/tensor.h"
#include "heed/text/tokenizer.h"

namespace heed::tasks {

/// Throws Error `transcribe: FIELD: …`, of TranscribeOptions, for options that are out of range or that this
/// Whisper does not have.
void check_whisper_options(const SpeechSettings& settings, const TranscribeOptions& options);

/// The English name of a language, `english`, by its code; the code where it has none.
std::string language_name(const std::string& code);

/// The length of a window where the options say none.
inline constexpr double kUsualWindowSeconds = 30;

/// The same for a model that reads samples. `decodes`: it has a decoder, which searches; without one it has
/// the times of words.
void check_sample_options(const std::string& family, bool decodes, const TranscribeOptions& options);

// The samples of a recording, window by window, in the memory of one.
class SampleWindows {
 public:
  /// Throws Error for a reader of another rate than the model's, and for a recording of fewer samples than
  /// `least`.
  SampleWindows(SoundReader reader, std::int64_t rate, std::int64_t least);

  /// Returns the next `count` samples, fewer at the end.
  std::span<const float> peek(std::int64_t count);
  /// Leaves out the next `count`, which have been seen.
  void skip(std::int64_t count);
  /// How many have been left out.
  std::int64_t position() const { return position_; }
  double seconds(std::int64_t samples) const;
  /// The seconds of the recording, as its header says; those until now where it does not.
  double expected_seconds() const;

 private:
  SoundReader reader_;
  std::vector<float> held_;
  std::int64_t position_ = 0;
};

/// Samples as a tensor [samples].
Tensor tensor_of(std::span<const float> samples);

// One window of a recording, transcribed: what attention to speech is drawn of.
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

// When words were spoken: dynamic time warping over the cross-attention of the alignment heads, as OpenAI's
// whisper does it (timing.py).

/// Words as their tokens. Languages that write no spaces between words are split into characters.
struct SplitWords {
  std::vector<std::string> words;
  std::vector<std::vector<std::int64_t>> tokens;
};
SplitWords split_words(const Tokenizer& tokenizer, std::span<const std::int64_t> tokens, bool by_characters);

/// The cheapest monotone path through costs [rows, columns] from the first corner to the last, as the first
/// column of each row.
std::vector<std::int64_t> warp_times(std::span<const float> costs, std::int64_t rows, std::int64_t columns);

/// The median of the `width` values around each one, the ends reflected; unchanged where there are too few.
void median_filter(std::span<float> values, std::int64_t width);

/// What a window's words are found from.
struct WordWindow {
  const EncoderDecoderModel& model;
  const Tokenizer& tokenizer;
  const SpeechSettings& settings;
  Decoding& decoding;                   ///< of the window, one row; it is truncated
  std::span<const std::int64_t> start;  ///< start token, language, task
  std::string language;
  std::int64_t positions = 0;  ///< of the encoder, that hold sound
  double seconds_per_position = 0;
  double offset = 0;  ///< of the window, in seconds
};

/// Finds the words of a window's segments, and moves the segments' times to those of their words.
/// `last_speech` is the end of the last word before, and is set to that of these.
void add_word_times(const WordWindow& window, std::vector<TranscriptSegment>& segments, double& last_speech,
                    Context& context);

}  // namespace heed::tasks
