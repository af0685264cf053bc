// Speech to text with Whisper, as its reference implementation (OpenAI's whisper) does it: recordings of any
// length by windows with timestamps, several temperatures, detection of the language, and times of words.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/generate/options.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class EncoderDecoderModel;
class SoundProcessor;
class SoundReader;
class Tokenizer;

/// What generation_config.json of a Whisper says.
struct SpeechSettings {
  GenerationOptions generation;    ///< lengths, beams, suppressed tokens; one end token
  std::int64_t start = 0;          ///< the token <|startoftranscript|>
  std::int64_t no_timestamps = 0;  ///< the token <|notimestamps|>; those after it are timestamps
  std::int64_t previous_text = 0;  ///< the token <|startofprev|>
  std::optional<std::int64_t> most_initial_timestamp = {};  ///< counted from 0.00, in steps of 20 ms
  /// Codes, such as "en", and their tokens; none for a model of English only.
  std::vector<std::pair<std::string, std::int64_t>> languages = {};
  std::optional<std::int64_t> transcribe = {}, translate = {};  ///< tokens of the two tasks
  /// What a fine-tuned model sets for its users (`language`, `task`, `forced_decoder_ids`).
  std::optional<std::string> language = {};
  bool translates = false;
  std::vector<std::array<std::int64_t, 2>> alignment_heads;  ///< layer and head of cross-attention
  std::int64_t median_filter_width = 7;                      ///< of the times of words, in positions

  /// The token <|nospeech|>, which stands before <|notimestamps|>.
  std::int64_t no_speech() const { return no_timestamps - 1; }
  bool is_multilingual() const { return !languages.empty(); }
};

/// Reads them from a model's directory. Adds to `unused`, if given, the keys that are unknown or request an
/// unsupported feature. Throws Error naming file and key for what is missing, malformed or out of range, and
/// for a model that takes no sound.
SpeechSettings load_speech_settings(const std::string& directory, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused = nullptr);

/// Returns the code of a language that is given by code or English name in any case ("fr", "French"). Throws
/// Error naming near ones if the model does not know it, or knows English only.
std::string speech_language(const SpeechSettings& settings, const std::string& language);

/// A word with its punctuation and the space before it.
struct TranscribedWord {
  std::string text;
  double start = 0, end = 0;  ///< in seconds from the beginning of the recording
  double probability = 0;     ///< the mean of its tokens'
  std::vector<std::int64_t> tokens = {};
};

/// A piece of a transcript, about a sentence. The numbers from `temperature` on are those of its window.
struct TranscriptSegment {
  double start = 0, end = 0;         ///< in seconds from the beginning of the recording
  std::string text;                  ///< often begins with a space
  std::vector<std::int64_t> tokens;  ///< timestamps included
  double temperature = 0;
  double average_log_probability = 0;
  double compression_ratio = 0;  ///< bytes of the text / bytes that zlib makes of them: large if it repeats
  double no_speech_probability = 0;
  std::vector<TranscribedWord> words = {};  ///< if TranscribeOptions::word_times
};

struct Transcript {
  std::string text;      ///< that of all segments
  std::string language;  ///< its code: given, or detected
  double seconds = 0;    ///< of the recording
  std::vector<TranscriptSegment> segments;
};

struct TranscribeOptions {
  /// Code or English name; nullopt: that of the settings, else detected in the first window.
  std::optional<std::string> language = {};
  std::optional<bool> translate = {};  ///< into English; nullopt: as the settings say
  bool timestamps = true;              ///< false: a window is one segment, unless the model ends it
  bool word_times = false;
  /// Text that seems to precede the recording: names, spelling, style.
  std::string prompt = {};
  /// Whether a window's prompt is the text before it, which includes `prompt`.
  bool condition_on_previous_text = true;
  /// Tried in this order until a window's text passes the thresholds; 0 is greedy search or beam search.
  std::vector<double> temperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
  std::int64_t best_of = 5;    ///< samples at a temperature above 0, of which the likeliest is taken
  std::int64_t num_beams = 1;  ///< at temperature 0
  std::optional<std::int64_t> max_new_tokens = {};  ///< of a window; by default, the settings' max_length
  std::optional<double> compression_ratio_threshold = 2.4;  ///< at most
  std::optional<double> log_probability_threshold = -1.0;   ///< on average at least
  /// A window with a larger probability of no speech, and a log-probability below its threshold, is silence.
  std::optional<double> no_speech_threshold = 0.6;
  std::uint64_t seed = 0;  ///< of sampling

  /// Called with every segment as soon as it is final, in order.
  std::function<void(const TranscriptSegment& segment)> on_segment = {};
  /// Called with the language, once, before the first segment.
  std::function<void(const std::string& language)> on_language = {};
  /// Called after every window with the seconds that are done, and all.
  std::function<void(double done, double seconds)> on_progress = {};
  /// Cancels the call once true: it throws Canceled. Checked before every layer.
  const std::atomic<bool>* stop = nullptr;
};

/// Transcribes a recording, in the memory of one window and of the text. Window after window of the model's
/// length, each from the last timestamp of the one before; see docs/sound.md for the rules. The recording is
/// read twice, first for the maximum of its spectrogram.
/// Throws Error naming the recording for one that cannot be read or is too short, and for options that are
/// out of range or that the model does not have.
Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const SpeechSettings& settings, const SoundProcessor& processor, SoundReader reader,
                      const TranscribeOptions& options = {});

/// The same for the features of a whole recording, f32[1, bins, frames].
Transcript transcribe_features(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                               const SpeechSettings& settings, const Tensor& features,
                               const TranscribeOptions& options = {});

/// The forms of a transcript: a line a segment; subtitles; times in milliseconds, tab, text; one object with
/// the names of OpenAI's whisper.
enum class TranscriptForm : std::uint8_t { text, srt, vtt, tsv, json };

/// What a transcript of this form begins with, and one segment of it, whose number counts from 1. Not for
/// json.
std::string transcript_head(TranscriptForm form);
std::string transcript_part(const TranscriptSegment& segment, std::int64_t number, TranscriptForm form);
/// The whole of it; json is one line, whose member `file` is `name` unless that is empty.
std::string written(const Transcript& transcript, TranscriptForm form, const std::string& name = {});

}  // namespace heed
