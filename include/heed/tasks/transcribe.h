// Speech to text, recordings of any length. With Whisper, as its reference implementation (OpenAI's whisper)
// does it: by windows with timestamps, several temperatures, detection of the language, and times of words.
// With wav2vec 2.0 and its CTC head, and with Moonshine, as transformers does it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/generate/options.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class EncoderDecoderModel;
class EncoderModel;
class Model;
class ModelFiles;
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
SpeechSettings load_speech_settings(const ModelFiles& files, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused = nullptr);

/// Returns the code of a language that is given by code or English name in any case ("fr", "French"). Throws
/// Error naming near ones if the model does not know it, or knows English only.
std::string speech_language(const SpeechSettings& settings, const std::string& language);

/// A word; of Whisper with its punctuation and the space before it.
struct TranscribedWord {
  std::string text;
  double start = 0, end = 0;  ///< in seconds from the beginning of the recording
  double probability = 0;     ///< the mean of its tokens', or frames'
  std::vector<std::int64_t> tokens = {};
};

/// A piece of a transcript, about a sentence. The numbers from `temperature` on are those of its window.
struct TranscriptSegment {
  double start = 0, end = 0;               ///< in seconds from the beginning of the recording
  std::string text;                        ///< of Whisper, often begins with a space
  std::vector<std::int64_t> tokens;        ///< timestamps included; of CTC each once, without blanks
  std::optional<double> temperature = {};  ///< of Whisper, as the other optional numbers
  double average_log_probability = 0;      ///< of tokens; of CTC, of the likeliest token of each frame
  /// Bytes of the text / bytes that zlib makes of them: large if it repeats.
  std::optional<double> compression_ratio = {};
  std::optional<double> no_speech_probability = {};
  std::vector<TranscribedWord> words = {};  ///< if TranscribeOptions::word_times
};

struct Transcript {
  std::string text;      ///< that of all segments
  std::string language;  ///< its code: given, or detected; empty for a model without languages
  double seconds = 0;    ///< of the recording
  std::vector<TranscriptSegment> segments;
};

/// Those that a model does not have are refused.
struct TranscribeOptions {
  /// Code or English name; nullopt: that of the settings, else detected in the first window.
  std::optional<std::string> language = {};
  std::optional<bool> translate = {};  ///< into English; nullopt: as the settings say
  /// Whisper: false: a window is one segment, unless the model ends it; by default true.
  std::optional<bool> timestamps = {};
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
  std::optional<CacheDType> cache_dtype = {};       ///< by default, that of the settings
  std::optional<double> compression_ratio_threshold = 2.4;  ///< at most
  std::optional<double> log_probability_threshold = -1.0;   ///< on average at least
  /// A window with a larger probability of no speech, and a log-probability below its threshold, is silence.
  std::optional<double> no_speech_threshold = 0.6;
  std::uint64_t seed = 0;  ///< of sampling
  /// Of models that are not Whisper: the length of a window, and of CTC how much of it at each end only its
  /// neighbors are there for; by default 30 s and a sixth of the window.
  std::optional<double> window_seconds = {}, stride_seconds = {};

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

/// Transcribes with a CTC head, greedily: of each frame the likeliest token; those that follow each other
/// count once, blanks not. In windows that overlap, of which all but the ends count, as transformers'
/// pipeline does with `chunk_length_s` and `stride_length_s`, in the memory of one window and of the text. A
/// segment ends before a pause of half a second, or a word that would make it longer than 10 s. Words stand
/// between tokens Tokenizer::word_delimiter_id(); without one, each token is a word. Throws Error as above.
Transcript transcribe(const EncoderModel& model, const Tokenizer& tokenizer, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options = {});

/// Transcribes with an encoder-decoder that reads samples (Moonshine), each window by itself, as one segment.
/// A window that does not reach the end is cut in the middle of the quietest 100 ms of its last third. It has
/// at most 6.5 tokens a second, the start token included, as the authors of Moonshine recommend.
/// Throws Error as above.
Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const GenerationOptions& generation, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options = {});

/// A model of speech of any of these kinds, with its settings.
/// Threads: several may use one object at once.
class Transcriber {
 public:
  /// Reads the settings from the model's directory. Model and tokenizer must outlive this. `unused` and
  /// errors are those of load_speech_settings().
  Transcriber(const Model& model, const Tokenizer& tokenizer, const std::string& directory,
              std::vector<std::string>* unused = nullptr);
  Transcriber(const Model& model, const Tokenizer& tokenizer, const ModelFiles& files,
              std::vector<std::string>* unused = nullptr);
  /// Samples per second of the recordings.
  std::int64_t rate() const;
  /// The settings of a Whisper; null for other models.
  const SpeechSettings* settings() const;
  /// Throws Error `transcribe: FIELD: expected …`, of TranscribeOptions, for options that are out of range or
  /// that the model does not have.
  void check(const TranscribeOptions& options) const;
  Transcript operator()(SoundReader reader, const TranscribeOptions& options = {}) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

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
