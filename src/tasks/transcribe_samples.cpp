// Transcription with an encoder-decoder that reads samples (Moonshine), window by window.
#include <algorithm>

#include "core/trimmed.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"
#include "tasks/sample_windows.h"
#include "tasks/speech_options.h"

namespace heed {
namespace {

// Where a window ends that is followed by more: in the middle of the quietest 100 ms of its last third.
std::int64_t quietest_place(std::span<const float> samples, std::int64_t rate) {
  const auto count = static_cast<std::int64_t>(samples.size());
  const std::int64_t block = std::max<std::int64_t>(1, rate / 10),
                     step = std::max<std::int64_t>(1, rate / 100);
  std::int64_t best = count;
  double least = 0;
  for (std::int64_t begin = count - count / 3; begin + block <= count; begin += step) {
    double energy = 0;
    for (std::int64_t i = begin; i < begin + block; ++i)
      energy += static_cast<double>(samples[static_cast<std::size_t>(i)]) *
                static_cast<double>(samples[static_cast<std::size_t>(i)]);
    if (best != count && energy >= least) continue;
    least = energy;
    best = begin + block / 2;
  }
  return best;
}

// The number of new tokens for so many samples, after the start token.
std::int64_t most_tokens(std::int64_t samples, std::int64_t rate) {
  constexpr double kTokensPerSecond = 6.5;
  const double factor = kTokensPerSecond / static_cast<double>(rate);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(samples) * factor) - 1);
}

}  // namespace

Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const GenerationOptions& generation, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options) {
  if (model.input().kind != InputKind::waveform)
    throw Error(std::string("transcribe: expected a model of samples, got a ") + model.family() + " model");
  tasks::check_sample_options(model.family(), true, options);
  const NoGradients no_gradients;
  Context context;
  context.stop = options.stop;
  const std::int64_t rate = processor.rate(), least = model.input().least;
  const auto window = static_cast<std::int64_t>(options.window_seconds.value_or(tasks::kUsualWindowSeconds) *
                                                static_cast<double>(rate));
  GenerationOptions search_options = generation;
  search_options.num_beams = options.num_beams;
  search_options.do_sample = false;
  if (search_options.eos_token_id.empty()) search_options.eos_token_id = {model.eos_id()};
  const std::vector<std::int64_t> prompt{
      generation.decoder_start_token_id.value_or(model.decoder_start_id())};
  tasks::SampleWindows windows(std::move(reader), rate, least);
  Transcript transcript;
  for (bool last = false; !last;) {
    const auto found = windows.peek(window + 1);
    last = static_cast<std::int64_t>(found.size()) <= window;
    const auto size = last ? static_cast<std::int64_t>(found.size())
                           : quietest_place(found.first(static_cast<std::size_t>(window)), rate);
    const auto samples = found.first(static_cast<std::size_t>(size));
    if (size >= least) {
      search_options.max_new_tokens = options.max_new_tokens.value_or(most_tokens(size, rate));
      const auto decoding = model.decode({.values = processor(tasks::tensor_of(samples)).features}, context);
      Hypothesis best =
          search(*decoding, std::span(&prompt, 1), search_options, {.stop = options.stop}, context)
              .front()
              .front();
      TranscriptSegment segment;
      segment.start = windows.seconds(windows.position());
      segment.end = windows.seconds(windows.position() + size);
      segment.average_log_probability = best.log_probability / static_cast<double>(best.ids.size());
      segment.text = tokenizer.decode_clean(best.ids);
      if (best.finish_reason == FinishReason::stop) best.ids.pop_back();  // the end token
      segment.tokens = std::move(best.ids);
      if (!trimmed(segment.text).empty()) {
        transcript.text += (transcript.text.empty() ? "" : " ") + std::string(trimmed(segment.text));
        if (options.on_segment) options.on_segment(segment);
        transcript.segments.push_back(std::move(segment));
      }
    }
    transcript.seconds = windows.seconds(windows.position() + size);
    if (options.on_progress)
      options.on_progress(transcript.seconds, last ? transcript.seconds : windows.expected_seconds());
    windows.skip(size);
  }
  return transcript;
}

}  // namespace heed
