#include "tasks/speech_options.h"

#include <fmt/format.h>

#include <cmath>

#include "heed/error.h"

namespace heed::tasks {
namespace {

[[noreturn]] void refuse_option(const char* name, const std::string& what) {
  throw Error(fmt::format("transcribe: {}: {}", name, what));
}

void check_least(const char* name, std::int64_t number) {
  if (number < 1) refuse_option(name, fmt::format("expected at least 1, got {}", number));
}

void check_search(const TranscribeOptions& options) {
  check_least("best_of", options.best_of);
  check_least("num_beams", options.num_beams);
  check_least("max_new_tokens", options.max_new_tokens.value_or(1));
}

}  // namespace

void check_whisper_options(const SpeechSettings& settings, const TranscribeOptions& options) {
  const bool one_language = !settings.is_multilingual();
  if (one_language && options.language)
    refuse_option("language", "expected none for a model of English only, got " + *options.language);
  if (one_language && options.translate.value_or(false))
    refuse_option("translate", "expected false for a model of English only, got true");
  if (options.translate.value_or(settings.translates) && !one_language && !settings.translate)
    refuse_option("translate", "expected false for a model without that task, got true");
  if (options.temperatures.empty()) refuse_option("temperatures", "expected at least one, got none");
  for (const double one : options.temperatures) {
    if (!(one >= 0 && one <= 100))
      refuse_option("temperatures", fmt::format("expected 0 to 100, got {}", one));
  }
  check_search(options);
  constexpr const char* kOwnLength = "expected none for a Whisper, whose windows have a length of their own";
  if (options.window_seconds) refuse_option("window_seconds", kOwnLength);
  if (options.stride_seconds) refuse_option("stride_seconds", kOwnLength);
}

void check_sample_options(const std::string& family, bool decodes, const TranscribeOptions& options) {
  const TranscribeOptions usual;
  const auto refuse_unless = [&](bool good, const char* name, const char* why) {
    if (!good) refuse_option(name, fmt::format("expected none for a {} model, which {}", family, why));
  };
  refuse_unless(!options.language, "language", "has one language");
  refuse_unless(!options.translate, "translate", "transcribes only");
  refuse_unless(options.prompt.empty(), "prompt", "reads no text");
  refuse_unless(options.condition_on_previous_text, "condition_on_previous_text", "reads no text");
  refuse_unless(options.temperatures == usual.temperatures, "temperatures", "does not sample");
  refuse_unless(options.best_of == usual.best_of, "best_of", "does not sample");
  constexpr const char* kOnce = "decodes each window once";
  refuse_unless(options.compression_ratio_threshold == usual.compression_ratio_threshold,
                "compression_ratio_threshold", kOnce);
  refuse_unless(options.log_probability_threshold == usual.log_probability_threshold,
                "log_probability_threshold", kOnce);
  refuse_unless(options.no_speech_threshold == usual.no_speech_threshold, "no_speech_threshold", kOnce);
  if (decodes) {
    refuse_unless(!options.timestamps, "timestamps", "predicts none");
    refuse_unless(!options.word_times, "word_times", "has no alignment");
    refuse_unless(!options.stride_seconds, "stride_seconds", "reads windows that do not overlap");
    check_search(options);
  } else {
    refuse_unless(!options.timestamps, "timestamps", "always has those of its frames");
    refuse_unless(options.num_beams == 1, "num_beams", "takes the likeliest token of each frame");
    refuse_unless(!options.max_new_tokens, "max_new_tokens", "has a token for each frame");
    refuse_unless(!options.cache_dtype, "cache_dtype", "remembers no keys and values");
  }
  constexpr double kLongest = 600;
  const double window = options.window_seconds.value_or(kUsualWindowSeconds);
  if (!(window >= 0.1 && window <= kLongest))
    refuse_option("window_seconds", fmt::format("expected 0.1 to 600 s, got {:g}", window));
  const double stride = options.stride_seconds.value_or(0);
  if (!(stride >= 0 && 2 * stride < window))
    refuse_option(
        "stride_seconds",
        fmt::format("expected 0 to less than half of the window of {:g} s, got {:g}", window, stride));
}

}  // namespace heed::tasks
