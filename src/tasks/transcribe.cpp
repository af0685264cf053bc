// The loop over the windows of a recording.
#include "heed/tasks/transcribe.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/strings.h"
#include "generate/processors.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/ops/softmax.h"
#include "heed/sound/processor.h"
#include "heed/text/tokenizer.h"
#include "tasks/speech.h"

namespace heed {
namespace {

using Ids = std::vector<std::int64_t>;

/// Where a recording's features come from.
class Features {
 public:
  virtual ~Features() = default;
  virtual std::int64_t frames() const = 0;
  /// Frames first, ..., first + count - 1, f32[1, bins, count]; zeros past the end.
  virtual Tensor part(std::int64_t first, std::int64_t count) = 0;
};

class RecordedFeatures final : public Features {
 public:
  explicit RecordedFeatures(LongSpectrogram spectrogram) : spectrogram_(std::move(spectrogram)) {}
  std::int64_t frames() const override { return spectrogram_.frames(); }
  Tensor part(std::int64_t first, std::int64_t count) override { return spectrogram_.part(first, count); }

 private:
  LongSpectrogram spectrogram_;
};

class GivenFeatures final : public Features {
 public:
  explicit GivenFeatures(const Tensor& features) : features_(features.to(DType::f32).contiguous()) {}
  std::int64_t frames() const override { return features_.size(2); }
  Tensor part(std::int64_t first, std::int64_t count) override {
    const std::int64_t bins = features_.size(1), all = frames();
    Tensor part = Tensor::zeros({1, bins, count});
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      const float* row = features_.data<float>() + bin * all;
      std::copy(row + first, row + std::min(first + count, all), part.data<float>() + bin * count);
    }
    return part;
  }

 private:
  Tensor features_;
};

// Bytes of the text / bytes that zlib makes of them.
double compression_ratio(std::string_view text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::vector<Bytef> compressed(size);
  const int result = compress2(compressed.data(), &size, reinterpret_cast<const Bytef*>(text.data()),
                               static_cast<uLong>(text.size()), Z_DEFAULT_COMPRESSION);
  HEED_ASSERT(result == Z_OK, "zlib compresses into a buffer of its own bound");
  return static_cast<double>(text.size()) / static_cast<double>(size);
}

// The text that a window gave, and how.
struct Attempt {
  Ids tokens;  // without the end token
  double temperature = 0, average_log_probability = 0, compression_ratio = 0, no_speech = 0;
};

class Transcription {
 public:
  Transcription(const EncoderDecoderModel& model, const Tokenizer& tokenizer, const SpeechSettings& settings,
                Features& features, double frames_per_second, const TranscribeOptions& options)
      : model_(model),
        tokenizer_(tokenizer),
        settings_(settings),
        features_(features),
        options_(options),
        window_(model.input().row[1]),
        frames_per_second_(frames_per_second),
        positions_(model.max_positions().value()),
        end_(settings.generation.eos_token_id.front()),
        timestamps_(options.timestamps.value_or(true)) {
    context_.stop = options.stop;
    context_.cache_dtype = options.cache_dtype.value_or(settings.generation.cache_dtype);
    tasks::check_whisper_options(settings, options);
    choose_language();
    if (const std::string_view prompt = trimmed(options.prompt); !prompt.empty())
      previous_ = tokenizer.encode(" " + std::string(prompt), false).ids;
  }

  Transcript run() {
    const NoGradients no_gradients;
    transcript_.seconds = seconds(features_.frames());
    while (seek_ < features_.frames()) {
      step();
      if (options_.on_progress)
        options_.on_progress(seconds(std::min(seek_, features_.frames())), transcript_.seconds);
    }
    return std::move(transcript_);
  }

  // The window from a frame on, as if the recording began there.
  tasks::SpeechWindow window_from(std::int64_t frame) {
    const NoGradients no_gradients;
    tasks::SpeechWindow window{.features = features_.part(frame, window_)};
    seek_ = frame;
    window.offset = last_speech_ = seconds(frame);
    window.seconds = seconds(std::min(window_, features_.frames() - frame));
    step();
    window.start = start_tokens();
    window.start.push_back(settings_.no_timestamps);
    for (TranscriptSegment& segment : transcript_.segments)
      std::move(segment.words.begin(), segment.words.end(), std::back_inserter(window.words));
    return window;
  }

 private:
  void choose_language() {
    const bool one_language = !settings_.is_multilingual();
    translates_ = options_.translate.value_or(settings_.translates);
    if (options_.language) language_ = speech_language(settings_, *options_.language);
    if (!options_.language && settings_.language) language_ = *settings_.language;
    if (one_language) language_ = "en";
  }

  double seconds(std::int64_t frames) const { return static_cast<double>(frames) / frames_per_second_; }

  // What the decoder reads before the text of a window.
  Ids start_tokens() const {
    Ids ids{settings_.start};
    if (!settings_.is_multilingual()) return ids;
    for (const auto& [code, id] : settings_.languages) {
      if (code == language_) ids.push_back(id);
    }
    ids.push_back(translates_ ? *settings_.translate : *settings_.transcribe);
    return ids;
  }

  void detect_language(Decoding& decoding) {
    const Tensor logits = decoding.step(Tensor::from(Ids{settings_.start}, {1, 1}), context_).to(DType::f32);
    decoding.truncate(0);
    const float* scores = logits.data<float>();
    const auto best =
        std::max_element(settings_.languages.begin(), settings_.languages.end(),
                         [&](const auto& a, const auto& b) { return scores[a.second] < scores[b.second]; });
    language_ = best->first;
  }

  // One window: its text, its segments, and where the next one begins.
  void step() {
    const std::int64_t size = std::min(window_, features_.frames() - seek_);
    const auto decoding = model_.decode({.values = features_.part(seek_, window_)}, context_);
    if (transcript_.language.empty()) {
      if (language_.empty()) detect_language(*decoding);
      transcript_.language = language_;
      if (options_.on_language) options_.on_language(language_);
    }
    const Attempt attempt = decode(*decoding);
    if (is_silence(attempt)) {
      seek_ += size;
      return;
    }
    bool ends_alone = false;
    std::int64_t next = 0;
    std::vector<TranscriptSegment> segments = split(attempt, size, next, ends_alone);
    next += seek_;
    if (options_.word_times) next = add_words(*decoding, segments, size, ends_alone, next);
    keep(segments);
    if (!options_.condition_on_previous_text || attempt.temperature > kMostTemperatureOfPrompt)
      previous_.clear();
    seek_ = next > seek_ ? next : seek_ + size;
    ++windows_;
  }

  Attempt decode(Decoding& decoding) {
    Ids prompt;
    const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(positions_ / 2 - 1, 0));
    if (!previous_.empty() && most > 0) {
      prompt.push_back(settings_.previous_text);
      prompt.insert(prompt.end(),
                    previous_.end() - std::min(std::ssize(previous_), static_cast<std::ptrdiff_t>(most)),
                    previous_.end());
    }
    const auto until_start = std::ssize(prompt) + 1;
    const Ids start = start_tokens();
    prompt.insert(prompt.end(), start.begin(), start.end());
    if (!timestamps_) prompt.push_back(settings_.no_timestamps);

    const Tensor first = decoding.step(
        Tensor::from(Ids(prompt.begin(), prompt.begin() + until_start), {1, until_start}), context_);
    const Tensor probabilities = softmax(first.to(DType::f32), -1);
    const double no_speech = static_cast<double>(probabilities.data<float>()[settings_.no_speech()]);
    // Searches begin after what has been read, but the last token, whose scores they want.
    const std::int64_t read = std::min(until_start, std::ssize(prompt) - 1);
    Attempt attempt;
    for (std::size_t i = 0; i < options_.temperatures.size(); ++i) {
      decoding.truncate(read);
      attempt = search_at(decoding, prompt, i);
      attempt.no_speech = no_speech;
      decoding.reorder(Ids{0});
      if (!fails(attempt)) break;
    }
    return attempt;
  }

  Attempt search_at(Decoding& decoding, const Ids& prompt, std::size_t index) {
    const double temperature = options_.temperatures[index];
    const std::int64_t room = positions_ - std::ssize(prompt);
    GenerationOptions generation = settings_.generation;
    const std::int64_t most = options_.max_new_tokens.value_or(
        generation.max_new_tokens.value_or(generation.max_length.value_or(positions_ / 2)));
    generation.max_new_tokens = std::max<std::int64_t>(1, std::min(most, room));
    generation.do_sample = temperature > 0;
    generation.temperature = temperature > 0 ? temperature : 1.0;
    generation.top_k = 0;
    generation.top_p = 1.0;
    generation.num_beams = temperature > 0 ? 1 : options_.num_beams;
    generation.num_return_sequences = temperature > 0 ? options_.best_of : 1;
    generation.seed = options_.seed;
    generation.cache_dtype = context_.cache_dtype;
    SearchHooks hooks{.sample_ids = {windows_ * 1000 + index}, .stop = options_.stop};
    if (timestamps_) {
      const generate::TimestampRules rules{end_, settings_.no_timestamps, settings_.most_initial_timestamp};
      const std::size_t given = prompt.size();
      hooks.process = [rules, given](std::size_t, std::span<const std::int64_t> ids,
                                     std::span<float> scores) { rules.apply(ids.subspan(given), scores); };
    }
    std::vector<Hypothesis> found =
        search(decoding, std::span(&prompt, 1), generation, hooks, context_).front();
    for (Hypothesis& one : found) {
      if (!one.ids.empty() && one.ids.back() == end_) one.ids.pop_back();
    }
    const auto likelihood = [](const Hypothesis& one) {
      return one.log_probability / static_cast<double>(std::max<std::size_t>(one.ids.size(), 1));
    };
    const Hypothesis& best = *std::max_element(
        found.begin(), found.end(),
        [&](const Hypothesis& a, const Hypothesis& b) { return likelihood(a) < likelihood(b); });
    return {best.ids, temperature, best.log_probability / static_cast<double>(best.ids.size() + 1),
            compression_ratio(trimmed(text_of(best.ids)))};
  }

  std::string text_of(const Ids& tokens) const {
    Ids text;
    std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(text),
                 [&](std::int64_t id) { return id < end_; });
    return tokenizer_.decode(text);
  }

  bool is_unlikely(const Attempt& attempt) const {
    return options_.log_probability_threshold &&
           attempt.average_log_probability < *options_.log_probability_threshold;
  }

  // Whether a higher temperature may do better.
  bool fails(const Attempt& attempt) const {
    const bool repeats = options_.compression_ratio_threshold &&
                         attempt.compression_ratio > *options_.compression_ratio_threshold;
    const bool silent = options_.no_speech_threshold && attempt.no_speech > *options_.no_speech_threshold;
    return (repeats || is_unlikely(attempt)) && !(silent && is_unlikely(attempt));
  }

  bool is_silence(const Attempt& attempt) const {
    if (!options_.no_speech_threshold || attempt.no_speech <= *options_.no_speech_threshold) return false;
    return !options_.log_probability_threshold ||
           attempt.average_log_probability <= *options_.log_probability_threshold;
  }

  bool is_time(std::int64_t id) const { return id > settings_.no_timestamps; }

  // Seconds of a timestamp from the window's start.
  double time_of(std::int64_t id) const {
    return static_cast<double>(id - settings_.no_timestamps - 1) * seconds(kFramesPerPosition);
  }

  TranscriptSegment segment_of(const Attempt& attempt, const Ids& tokens, double start, double end) const {
    return {seconds(seek_) + start,    seconds(seek_) + end,
            text_of(tokens),           tokens,
            attempt.temperature,       attempt.average_log_probability,
            attempt.compression_ratio, attempt.no_speech};
  }

  // Splits the text at pairs of timestamps. `next` becomes the frame, counted from the window's, where the
  // next window begins: after the last pair, since the rest may be cut off; after a single timestamp, or
  // without pairs, at the end of this one.
  std::vector<TranscriptSegment> split(const Attempt& attempt, std::int64_t size, std::int64_t& next,
                                       bool& ends_alone) const {
    const Ids& tokens = attempt.tokens;
    const std::size_t count = tokens.size();
    ends_alone = count >= 2 && is_time(tokens[count - 1]) && !is_time(tokens[count - 2]);
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < count; ++i) {
      if (is_time(tokens[i - 1]) && is_time(tokens[i])) ends.push_back(i);
    }
    next = size;
    std::vector<TranscriptSegment> segments;
    if (ends.empty()) {
      const auto last =
          std::find_if(tokens.rbegin(), tokens.rend(), [&](std::int64_t id) { return is_time(id); });
      const bool timed = last != tokens.rend() && *last != settings_.no_timestamps + 1;
      segments.push_back(segment_of(attempt, tokens, 0, timed ? time_of(*last) : seconds(size)));
      return segments;
    }
    if (ends_alone) ends.push_back(count);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      const Ids part(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                     tokens.begin() + static_cast<std::ptrdiff_t>(end));
      segments.push_back(segment_of(attempt, part, time_of(part.front()), time_of(part.back())));
      begin = end;
    }
    if (!ends_alone) next = (tokens[begin - 1] - settings_.no_timestamps - 1) * kFramesPerPosition;
    return segments;
  }

  // Returns where the next window begins: at the end of the last word, unless the text ended by itself.
  std::int64_t add_words(Decoding& decoding, std::vector<TranscriptSegment>& segments, std::int64_t size,
                         bool ends_alone, std::int64_t next) {
    const Ids start = start_tokens();
    const tasks::WordWindow window{.model = model_,
                                   .tokenizer = tokenizer_,
                                   .settings = settings_,
                                   .decoding = decoding,
                                   .start = start,
                                   .language = language_,
                                   .positions = size / kFramesPerPosition,
                                   .seconds_per_position = seconds(kFramesPerPosition),
                                   .offset = seconds(seek_)};
    tasks::add_word_times(window, segments, last_speech_, context_);
    double end = segments.back().end;
    for (auto one = segments.rbegin(); one != segments.rend(); ++one) {
      if (one->words.empty()) continue;
      end = one->words.back().end;
      break;
    }
    last_speech_ = end;
    if (ends_alone || end <= seconds(seek_)) return next;
    return static_cast<std::int64_t>(std::nearbyint(end * frames_per_second_));
  }

  // Adds segments to the result and to the prompt of the next window, but those without text or duration.
  void keep(std::vector<TranscriptSegment>& segments) {
    for (TranscriptSegment& segment : segments) {
      if (segment.start == segment.end || trimmed(segment.text).empty()) continue;
      previous_.insert(previous_.end(), segment.tokens.begin(), segment.tokens.end());
      transcript_.text += segment.text;
      if (options_.on_segment) options_.on_segment(segment);
      transcript_.segments.push_back(std::move(segment));
    }
  }

  static constexpr std::int64_t kFramesPerPosition = 2;  // by the stride of the second convolution
  static constexpr double kMostTemperatureOfPrompt = 0.5;

  const EncoderDecoderModel& model_;
  const Tokenizer& tokenizer_;
  const SpeechSettings& settings_;
  Features& features_;
  const TranscribeOptions& options_;
  Context context_;
  const std::int64_t window_;  // in frames
  const double frames_per_second_;
  const std::int64_t positions_, end_;
  const bool timestamps_;
  std::string language_;
  bool translates_ = false;
  Ids previous_;  // the tokens before the window
  std::int64_t seek_ = 0;
  std::uint64_t windows_ = 0;
  double last_speech_ = 0;
  Transcript transcript_;
};

void check_bins(const EncoderDecoderModel& model, const SoundProcessor& processor) {
  if (const std::int64_t bins = model.input().row[0]; processor.bins() != bins) {
    throw Error("transcribe: expected a spectrogram of " + std::to_string(bins) +
                " bins for this model, got " + std::to_string(processor.bins()) +
                " (preprocessor_config.json is another model's)");
  }
}

}  // namespace

Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const SpeechSettings& settings, const SoundProcessor& processor, SoundReader reader,
                      const TranscribeOptions& options) {
  check_bins(model, processor);
  LongSpectrogram spectrogram(processor, std::move(reader), options.stop);
  const double rate = spectrogram.frames_per_second();
  RecordedFeatures features(std::move(spectrogram));
  return Transcription(model, tokenizer, settings, features, rate, options).run();
}

void tasks::fail_at_end(const std::string& name, double seconds, double start) {
  throw Error(fmt::format("{}: expected a start before the end of the sound at {:.2f} s, got {:g} s", name,
                          seconds, start));
}

tasks::SpeechWindow tasks::transcribe_window(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                             const SpeechSettings& settings, const SoundProcessor& processor,
                                             SoundReader reader, double start,
                                             const TranscribeOptions& given) {
  check_bins(model, processor);
  TranscribeOptions options = given;
  options.word_times = true;
  const std::string name = reader.name();
  LongSpectrogram spectrogram(processor, std::move(reader), options.stop);
  const double rate = spectrogram.frames_per_second();
  const auto frame =
      static_cast<std::int64_t>(std::min(start * rate, static_cast<double>(spectrogram.frames())));
  const double seconds = static_cast<double>(spectrogram.frames()) / rate;
  if (frame >= spectrogram.frames()) fail_at_end(name, seconds, start);
  RecordedFeatures features(std::move(spectrogram));
  SpeechWindow window = Transcription(model, tokenizer, settings, features, rate, options).window_from(frame);
  window.recording = seconds;
  window.seconds_per_frame = 1 / rate;
  return window;
}

Transcript transcribe_features(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                               const SpeechSettings& settings, const Tensor& features,
                               const TranscribeOptions& options) {
  const InputSpec input = model.input();
  if (!features.defined() || features.rank() != 3 || features.size(0) != 1 ||
      features.size(1) != input.row[0] || features.size(2) < 1 || !is_floating(features.dtype())) {
    throw Error("transcribe: expected features [1, " + std::to_string(input.row[0]) + ", frames], got " +
                (features.defined() ? features.str() : "an undefined tensor"));
  }
  constexpr double kFramesPerSecond = 100;
  GivenFeatures given(features);
  return Transcription(model, tokenizer, settings, given, kFramesPerSecond, options).run();
}

}  // namespace heed
