// Speech to text for recordings of any length. Whisper works as in OpenAI's reference implementation: windows
// with timestamps, several temperatures, language detection, and word times. wav2vec 2.0 (CTC head) and
// Moonshine work as in transformers.
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

/// The settings of a Whisper model, from generation_config.json.
struct SpeechSettings {
  GenerationOptions generation;    ///< lengths, beams, suppressed tokens; one end token
  std::int64_t start = 0;          ///< the token <|startoftranscript|>
  std::int64_t no_timestamps = 0;  ///< the token <|notimestamps|>; those after it are timestamps
  std::int64_t previous_text = 0;  ///< the token <|startofprev|>
  std::optional<std::int64_t> most_initial_timestamp = {};  ///< counted from 0.00, in steps of 20 ms
  /// Codes, such as "en", and their tokens; empty for an English-only model.
  std::vector<std::pair<std::string, std::int64_t>> languages = {};
  std::optional<std::int64_t> transcribe = {}, translate = {};  ///< tokens of the two tasks
  /// Presets of a fine-tuned model (`language`, `task`, `forced_decoder_ids`).
  std::optional<std::string> language = {};
  bool translates = false;
  std::vector<std::array<std::int64_t, 2>> alignment_heads;  ///< layer and head of cross-attention
  std::int64_t median_filter_width = 7;                      ///< of the times of words, in positions

  /// The token <|nospeech|>, the one before <|notimestamps|>.
  std::int64_t no_speech() const { return no_timestamps - 1; }
  bool is_multilingual() const { return !languages.empty(); }
};

/// Reads the settings from a model's directory. Adds to `unused`, if given, the keys that are unknown or
/// request an unsupported feature. Throws Error naming file and key for a setting that is missing, malformed
/// or out of range, and for a model that takes no sound.
SpeechSettings load_speech_settings(const std::string& directory, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused = nullptr);
SpeechSettings load_speech_settings(const ModelFiles& files, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused = nullptr);

/// Returns the code of a language that is given by code or English name in any case ("fr", "French"). Throws
/// Error naming similar ones if the model does not know it, or if the model is English-only.
std::string speech_language(const SpeechSettings& settings, const std::string& language);

/// A word; Whisper's words include punctuation and the space before them.
struct TranscribedWord {
  std::string text;
  double start = 0, end = 0;  ///< in seconds from the beginning of the recording
  double probability = 0;     ///< the mean over its tokens, or its frames
  std::vector<std::int64_t> tokens = {};
};

/// A piece of a transcript, about a sentence. The numbers from `temperature` on are those of the segment's
/// window.
struct TranscriptSegment {
  double start = 0, end = 0;               ///< in seconds from the beginning of the recording
  std::string text;                        ///< Whisper's often begins with a space
  std::vector<std::int64_t> tokens;        ///< including timestamps; with CTC without repetitions and blanks
  std::optional<double> temperature = {};  ///< Whisper only, as all optional numbers
  double average_log_probability = 0;      ///< of tokens; with CTC, of the most probable token of each frame
  /// Bytes of the text / bytes after compression with zlib: large if the text repeats itself.
  std::optional<double> compression_ratio = {};
  std::optional<double> no_speech_probability = {};
  std::vector<TranscribedWord> words = {};  ///< if TranscribeOptions::word_times
};

struct Transcript {
  std::string text;      ///< the text of all segments
  std::string language;  ///< the code, given or detected; empty for a model without languages
  double seconds = 0;    ///< of the recording
  std::vector<TranscriptSegment> segments;
};

/// Options that a model does not have are an Error.
struct TranscribeOptions {
  /// Code or English name; nullopt: from the settings, else detected in the first window.
  std::optional<std::string> language = {};
  std::optional<bool> translate = {};  ///< into English; nullopt: as the settings say
  /// Whisper only. False: a window is one segment, unless the model ends it; by default true.
  std::optional<bool> timestamps = {};
  bool word_times = false;
  /// Text that precedes the recording, as context for names, spelling and style.
  std::string prompt = {};
  /// Whether the text before a window, including `prompt`, is its prompt.
  bool condition_on_previous_text = true;
  /// Tried in this order until a window's text passes the thresholds; 0 is greedy search or beam search.
  std::vector<double> temperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
  std::int64_t best_of = 5;    ///< samples at a temperature above 0; the most probable is used
  std::int64_t num_beams = 1;  ///< at temperature 0
  std::optional<std::int64_t> max_new_tokens = {};  ///< of a window; by default, the settings' max_length
  std::optional<CacheDType> cache_dtype = {};       ///< by default, that of the settings
  std::optional<double> compression_ratio_threshold = 2.4;  ///< at most
  std::optional<double> log_probability_threshold = -1.0;   ///< on average at least
  /// A window with a larger probability of no speech, and a log-probability below its threshold, is silence.
  std::optional<double> no_speech_threshold = 0.6;
  std::uint64_t seed = 0;  ///< of sampling
  /// Not for Whisper: the length of a window (by default 30 s), and, for CTC, the length of the overlap at
  /// each end of a window (by default a sixth of the window).
  std::optional<double> window_seconds = {}, stride_seconds = {};

  /// Called with every segment as soon as it is final, in order.
  std::function<void(const TranscriptSegment& segment)> on_segment = {};
  /// Called with the language, once, before the first segment.
  std::function<void(const std::string& language)> on_language = {};
  /// Called after every window with the seconds that are done, and the total.
  std::function<void(double done, double seconds)> on_progress = {};
  /// Cancels the call once true: it throws Canceled. Checked before every layer.
  const std::atomic<bool>* stop = nullptr;
};

/// Transcribes a recording window by window, in the memory of one window and the text. Each window begins at
/// the last timestamp of the previous one; docs/sound.md has the rules. The recording is read twice, first
/// for the maximum of its spectrogram. Throws Error naming the recording if it cannot be read or is too
/// short, and for options that are out of range or that the model does not have.
Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const SpeechSettings& settings, const SoundProcessor& processor, SoundReader reader,
                      const TranscribeOptions& options = {});

/// The same for the features of a whole recording, f32[1, bins, frames].
Transcript transcribe_features(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                               const SpeechSettings& settings, const Tensor& features,
                               const TranscribeOptions& options = {});

/// Transcribes with a CTC head, greedily: takes the most probable token of each frame, then removes
/// repetitions and blanks. Windows overlap, and the overlap at their ends is discarded, as in transformers'
/// pipeline with `chunk_length_s` and `stride_length_s`. Uses the memory of one window and the text. A
/// segment ends before a pause of half a second, or a word that would make it longer than 10 s. The token
/// Tokenizer::word_delimiter_id() separates words; without one, each token is a word. Throws Error as above.
Transcript transcribe(const EncoderModel& model, const Tokenizer& tokenizer, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options = {});

/// Transcribes with an encoder-decoder that reads samples (Moonshine). Each window is independent and gives
/// one segment. A window that does not reach the end is cut in the middle of the quietest 100 ms of its last
/// third. A window has at most 6.5 tokens a second, including the start token, as the authors of Moonshine
/// recommend. Throws Error as above.
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

/// The forms of a transcript: one line per segment (text); subtitles (srt, vtt); times in milliseconds, tab,
/// text (tsv); one object with the names of OpenAI's whisper (json).
enum class TranscriptForm : std::uint8_t { text, srt, vtt, tsv, json };

/// The beginning of a transcript of this form, and one segment; segment numbers start at 1. Not for json.
std::string transcript_head(TranscriptForm form);
std::string transcript_part(const TranscriptSegment& segment, std::int64_t number, TranscriptForm form);
/// The whole transcript; json is one line, with the member `file` if `name` is not empty.
std::string written(const Transcript& transcript, TranscriptForm form, const std::string& name = {});

}  // namespace heed
