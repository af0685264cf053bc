#include "tasks/speech_options.h"

#include <cmath>

#include "heed/error.h"

namespace heed::tasks {
namespace {

[[noreturn]] void refuse_option(const std::string& what) { throw Error("transcribe: " + what); }

void check_search(const TranscribeOptions& options) {
  if (options.best_of < 1 || options.num_beams < 1)
    refuse_option("best_of, num_beams: expected at least 1, got less");
  if (options.max_new_tokens.value_or(1) < 1) refuse_option("max_new_tokens: expected at least 1, got less");
}

}  // namespace

void check_whisper_options(const SpeechSettings& settings, const TranscribeOptions& options) {
  const bool one_language = !settings.is_multilingual();
  if (one_language && options.language)
    refuse_option("language: expected none for a model of English only, got " + *options.language);
  if (one_language && options.translate.value_or(false))
    refuse_option("translate: expected false for a model of English only, got true");
  if (options.translate.value_or(settings.translates) && !one_language && !settings.translate)
    refuse_option("translate: expected false for a model without that task, got true");
  if (options.temperatures.empty()) refuse_option("temperatures: expected at least one, got none");
  for (const double one : options.temperatures) {
    if (!(one >= 0 && one <= 100))
      refuse_option("temperatures: expected 0 to 100, got " + std::to_string(one));
  }
  check_search(options);
  if (options.window_seconds || options.stride_seconds)
    refuse_option("window, stride: expected none for a Whisper, whose windows have a length of their own");
}

void check_sample_options(const std::string& family, bool decodes, const TranscribeOptions& options) {
  const TranscribeOptions usual;
  const auto refuse_unless = [&](bool good, const std::string& name, const char* why) {
    if (!good) refuse_option(name + ": expected none for a " + family + " model, which " + why);
  };
  refuse_unless(!options.language, "language", "has one language");
  refuse_unless(!options.translate, "task", "transcribes only");
  refuse_unless(options.prompt.empty(), "prompt", "reads no text");
  refuse_unless(options.condition_on_previous_text, "condition_on_previous_text", "reads no text");
  refuse_unless(options.temperatures == usual.temperatures && options.best_of == usual.best_of,
                "temperature, best_of", "does not sample");
  refuse_unless(options.compression_ratio_threshold == usual.compression_ratio_threshold &&
                    options.log_probability_threshold == usual.log_probability_threshold &&
                    options.no_speech_threshold == usual.no_speech_threshold,
                "thresholds", "decodes each window once");
  if (decodes) {
    refuse_unless(!options.timestamps, "timestamps", "predicts none");
    refuse_unless(!options.word_times, "word times", "has no alignment");
    refuse_unless(!options.stride_seconds, "stride", "reads windows that do not overlap");
    check_search(options);
  } else {
    refuse_unless(!options.timestamps, "timestamps", "always has those of its frames");
    refuse_unless(options.num_beams == 1, "num_beams", "takes the likeliest token of each frame");
    refuse_unless(!options.max_new_tokens, "max_new_tokens", "has a token for each frame");
  }
  constexpr double kLongest = 600;
  const double window = options.window_seconds.value_or(kUsualWindowSeconds);
  if (!(window >= 0.1 && window <= kLongest))
    refuse_option("window: expected 0.1 to 600 s, got " + std::to_string(window));
  if (!(options.stride_seconds.value_or(0) >= 0 && 2 * options.stride_seconds.value_or(0) < window))
    refuse_option("stride: expected 0 to less than half of the window of " + std::to_string(window) +
                  " s, got " + std::to_string(*options.stride_seconds));
}

}  // namespace heed::tasks
