// Transcription with an encoder-decoder that reads samples (Moonshine), window by window.
#include "core/strings.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"
#include "tasks/speech.h"

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

// Searches the text of one window after the other.
class SampleSearch {
 public:
  SampleSearch(const EncoderDecoderModel& model, const GenerationOptions& generation,
               const SoundProcessor& processor, const TranscribeOptions& options)
      : model_(model),
        processor_(processor),
        options_(options),
        search_options_(generation),
        prompt_{generation.decoder_start_token_id.value_or(model.decoder_start_id())} {
    if (model.input().kind != InputKind::waveform)
      throw Error(std::string("transcribe: expected a model of samples, got a ") + model.family() + " model");
    tasks::check_sample_options(model.family(), true, options);
    context_.stop = options.stop;
    search_options_.num_beams = options.num_beams;
    search_options_.do_sample = false;
    search_options_.cache_dtype = options.cache_dtype.value_or(generation.cache_dtype);
    if (search_options_.eos_token_id.empty()) search_options_.eos_token_id = {model.eos_id()};
  }

  const std::vector<std::int64_t>& prompt() const { return prompt_; }

  // The samples of the next window: all that is left where that fits.
  std::span<const float> next(tasks::SampleWindows& windows, bool& last) const {
    const std::int64_t rate = processor_.rate();
    const auto most = static_cast<std::int64_t>(options_.window_seconds.value_or(tasks::kUsualWindowSeconds) *
                                                static_cast<double>(rate));
    const auto found = windows.peek(most + 1);
    last = std::ssize(found) <= most;
    return last ? found
                : found.first(static_cast<std::size_t>(
                      quietest_place(found.first(static_cast<std::size_t>(most)), rate)));
  }

  Tensor values(std::span<const float> samples) const {
    return processor_(tasks::tensor_of(samples)).features;
  }

  Hypothesis operator()(const Tensor& values, std::int64_t samples) {
    search_options_.max_new_tokens =
        options_.max_new_tokens.value_or(most_tokens(samples, processor_.rate()));
    const auto decoding = model_.decode({.values = values}, context_);
    return search(*decoding, std::span(&prompt_, 1), search_options_, {.stop = options_.stop}, context_)
        .front()
        .front();
  }

 private:
  const EncoderDecoderModel& model_;
  const SoundProcessor& processor_;
  const TranscribeOptions& options_;
  GenerationOptions search_options_;
  std::vector<std::int64_t> prompt_;
  Context context_;
};

void drop_end_token(Hypothesis& hypothesis) {
  if (hypothesis.finish_reason == FinishReason::stop) hypothesis.ids.pop_back();
}

}  // namespace

Transcript transcribe(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                      const GenerationOptions& generation, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options) {
  const NoGradients no_gradients;
  SampleSearch search_text(model, generation, processor, options);
  const std::int64_t least = model.input().least;
  tasks::SampleWindows windows(std::move(reader), processor.rate(), least);
  Transcript transcript;
  for (bool last = false; !last;) {
    const auto samples = search_text.next(windows, last);
    const std::int64_t size = std::ssize(samples);
    if (size >= least) {
      Hypothesis best = search_text(search_text.values(samples), size);
      TranscriptSegment segment;
      segment.start = windows.seconds(windows.position());
      segment.end = windows.seconds(windows.position() + size);
      segment.average_log_probability = best.log_probability / static_cast<double>(best.ids.size());
      segment.text = tokenizer.decode_clean(best.ids);
      drop_end_token(best);
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

tasks::HeardSamples tasks::transcribe_window(const EncoderDecoderModel& model,
                                             const GenerationOptions& generation,
                                             const SoundProcessor& processor, SoundReader reader,
                                             double start, const TranscribeOptions& options) {
  const NoGradients no_gradients;
  SampleSearch search_text(model, generation, processor, options);
  const std::string name = reader.name();
  SampleWindows windows(std::move(reader), processor.rate(), model.input().least);
  constexpr std::int64_t kSkipped = 1 << 16;
  const auto first =
      static_cast<std::int64_t>(std::min(std::floor(start * static_cast<double>(processor.rate())), 9e15));
  while (windows.position() < first) {
    const std::int64_t count = std::ssize(windows.peek(std::min(kSkipped, first - windows.position())));
    if (count == 0) break;
    windows.skip(count);
  }
  HeardSamples heard{.values = {}, .start = search_text.prompt()};
  const auto samples = search_text.next(windows, heard.ends);
  heard.offset = windows.seconds(windows.position());
  heard.seconds = windows.seconds(std::ssize(samples));
  if (samples.empty()) fail_at_end(name, heard.offset, start);
  if (std::ssize(samples) < model.input().least) {
    throw Error(fmt::format("{}: expected at least {} samples from {:.2f} s on, got {}", name,
                            model.input().least, heard.offset, samples.size()));
  }
  heard.values = search_text.values(samples);
  Hypothesis best = search_text(heard.values, std::ssize(samples));
  drop_end_token(best);
  heard.tokens = std::move(best.ids);
  return heard;
}

}  // namespace heed

namespace heed::tasks {

SampleWindows::SampleWindows(SoundReader reader, std::int64_t rate, std::int64_t least)
    : reader_(std::move(reader)) {
  if (reader_.rate() != rate)
    throw Error("transcribe: expected a reader of " + std::to_string(rate) + " samples a second, got " +
                std::to_string(reader_.rate()));
  if (const std::size_t found = peek(least).size(); found < static_cast<std::size_t>(least))
    throw Error(reader_.name() + ": expected a sound of at least " + std::to_string(least) +
                " samples, got " + std::to_string(found));
}

std::span<const float> SampleWindows::peek(std::int64_t count) {
  const std::size_t before = held_.size(), wanted = static_cast<std::size_t>(count);
  if (before < wanted) {
    held_.resize(wanted);
    held_.resize(before + reader_.read(std::span(held_).subspan(before)));
  }
  return std::span(held_).first(std::min(wanted, held_.size()));
}

void SampleWindows::skip(std::int64_t count) {
  held_.erase(held_.begin(), held_.begin() + count);
  position_ += count;
}

double SampleWindows::seconds(std::int64_t samples) const {
  return static_cast<double>(samples) / static_cast<double>(reader_.rate());
}

double SampleWindows::expected_seconds() const {
  const SoundInfo& info = reader_.info();
  return info.frames ? static_cast<double>(*info.frames) / static_cast<double>(info.rate)
                     : seconds(position_ + static_cast<std::int64_t>(held_.size()));
}

Tensor tensor_of(std::span<const float> samples) {
  return Tensor::from(std::vector<float>(samples.begin(), samples.end()),
                      {static_cast<std::int64_t>(samples.size())});
}

}  // namespace heed::tasks
