// Transcription with a CTC head: frames to tokens, words and segments.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"
#include "tasks/speech.h"

namespace heed {
namespace {

using tasks::SampleWindows;
using TokenIds = std::vector<std::int64_t>;

constexpr double kPause = 0.5, kLongestSegment = 10;  // in seconds

// Consecutive frames; `before` and `after` are sums of log-probabilities of all frames up to there.
struct FrameSpan {
  std::int64_t begin = 0, end = 0;
  double before = 0, after = 0;
};

struct FrameWord {
  FrameSpan span;
  TokenIds tokens;
  double probability = 0;  // sum over `frames`, which leave out blanks
  std::int64_t frames = 0;
};

// The likeliest tokens of frames, one after the other, become words and segments.
class CtcTranscript {
 public:
  CtcTranscript(const Tokenizer& tokenizer, std::int64_t blank, double frame_seconds,
                const TranscribeOptions& options)
      : tokenizer_(tokenizer),
        blank_(blank),
        delimiter_(tokenizer.word_delimiter_id()),
        frame_seconds_(frame_seconds),
        options_(options) {}

  void add(std::int64_t id, double log_probability) {
    if (id != token_) end_token();
    if (id != token_) begin_token(id);
    sum_ += log_probability;
    ++frame_;
    if (id != blank_ && id != delimiter_) {
      word_.probability += std::exp(log_probability);
      ++word_.frames;
      word_.span.end = frame_;
      word_.span.after = sum_;
    }
  }

  Transcript finish(double seconds) {
    end_word();
    end_segment();
    transcript_.text = text_of(all_);
    transcript_.seconds = seconds;
    return std::move(transcript_);
  }

 private:
  // Without a delimiter each token is a word.
  void end_token() {
    if (!delimiter_) end_word();
  }

  void begin_token(std::int64_t id) {
    token_ = id;
    if (id == blank_) return;
    all_.push_back(id);
    if (id == delimiter_) {
      end_word();
      if (!segment_.tokens.empty()) delimiters_.push_back(id);
      return;
    }
    if (word_.tokens.empty()) word_.span = {frame_, frame_, sum_, sum_};
    word_.tokens.push_back(id);
  }

  void end_word() {
    if (word_.tokens.empty()) return;
    const double start = seconds(word_.span.begin), end = seconds(word_.span.end);
    if (!segment_.tokens.empty() &&
        (start - segment_.end >= kPause || end - segment_.start > kLongestSegment))
      end_segment();
    if (segment_.tokens.empty()) {
      segment_.start = start;
      span_ = word_.span;
    }
    segment_.tokens.insert(segment_.tokens.end(), delimiters_.begin(), delimiters_.end());
    delimiters_.clear();
    segment_.tokens.insert(segment_.tokens.end(), word_.tokens.begin(), word_.tokens.end());
    segment_.end = end;
    span_.end = word_.span.end;
    span_.after = word_.span.after;
    if (options_.word_times)
      segment_.words.push_back({text_of(word_.tokens), start, end,
                                word_.probability / static_cast<double>(word_.frames), word_.tokens});
    word_ = {};
  }

  void end_segment() {
    delimiters_.clear();
    if (segment_.tokens.empty()) return;
    segment_.text = text_of(segment_.tokens);
    segment_.average_log_probability =
        (span_.after - span_.before) / static_cast<double>(span_.end - span_.begin);
    if (options_.on_segment) options_.on_segment(segment_);
    transcript_.segments.push_back(std::move(segment_));
    segment_ = {};
  }

  // Blanks keep tokens apart that are equal and follow each other.
  std::string text_of(const TokenIds& tokens) const {
    TokenIds frames;
    for (const std::int64_t id : tokens) frames.insert(frames.end(), {id, blank_});
    return tokenizer_.decode_clean(frames, false);
  }
  double seconds(std::int64_t frame) const { return static_cast<double>(frame) * frame_seconds_; }

  const Tokenizer& tokenizer_;
  const std::int64_t blank_;
  const std::optional<std::int64_t> delimiter_;
  const double frame_seconds_;
  const TranscribeOptions& options_;
  std::int64_t token_ = -1, frame_ = 0;  // of the frame before; the number of frames
  double sum_ = 0;
  FrameWord word_;
  TokenIds all_, delimiters_;  // of the recording; after the last word of the segment
  TranscriptSegment segment_;
  FrameSpan span_;
  Transcript transcript_;
};

// The likeliest token of each row, and its log-probability.
std::pair<std::int64_t, double> likeliest(const float* row, std::int64_t count) {
  const float* best = std::max_element(row, row + count);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(row[i] - *best));
  return {best - row, -std::log(sum)};
}

// Python's round(), half to even, of seconds to a multiple of the frames' distance.
std::int64_t aligned(double seconds, std::int64_t rate, std::int64_t hop) {
  return static_cast<std::int64_t>(
             std::nearbyint(seconds * static_cast<double>(rate) / static_cast<double>(hop))) *
         hop;
}

}  // namespace

Transcript transcribe(const EncoderModel& model, const Tokenizer& tokenizer, const SoundProcessor& processor,
                      SoundReader reader, const TranscribeOptions& options) {
  if (model.head() != EncoderHead::ctc || model.input().kind != InputKind::waveform)
    throw Error(std::string("transcribe: expected a model of samples with a CTC head, got a ") +
                model.family() + " model");
  tasks::check_sample_options(model.family(), false, options);
  const NoGradients no_gradients;
  Context context;
  context.stop = options.stop;
  const auto [rate, hop, least] = std::tuple(processor.rate(), model.input().hop, model.input().least);
  const double window_seconds = options.window_seconds.value_or(tasks::kUsualWindowSeconds);
  const std::int64_t window = aligned(window_seconds, rate, hop),
                     stride = aligned(options.stride_seconds.value_or(window_seconds / 6), rate, hop);
  if (window < least || window <= 2 * stride)
    throw Error("transcribe: window, stride: expected windows of at least " + std::to_string(least) +
                " samples, more than twice the stride, got " + std::to_string(window) + " and " +
                std::to_string(stride));
  SampleWindows windows(std::move(reader), rate, least);
  const std::int64_t blank = tokenizer.pad_id().value_or(model.pad_id());
  CtcTranscript transcript(tokenizer, blank, static_cast<double>(hop) / static_cast<double>(rate), options);
  const std::int64_t unknown = tokenizer.unk_id().value_or(blank);
  for (bool last = false; !last;) {
    const auto found = windows.peek(window + 1);
    last = static_cast<std::int64_t>(found.size()) <= window;
    const auto samples = found.first(std::min(found.size(), static_cast<std::size_t>(window)));
    const auto size = static_cast<double>(samples.size());
    const std::int64_t left = windows.position() == 0 ? 0 : stride, right = last ? 0 : stride;
    if (static_cast<std::int64_t>(samples.size()) > left &&
        static_cast<std::int64_t>(samples.size()) >= least) {
      const ModelInput input{.values = processor(tasks::tensor_of(samples)).features};
      const Tensor logits =
          model.predict(model.encode(input, context), {}, context).to(DType::f32).contiguous();
      const double frames = std::nearbyint(size * (1.0 / static_cast<double>(hop)));
      const auto part = [&](std::int64_t samples_of_it) {
        return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(samples_of_it) / size * frames));
      };
      const std::int64_t end = std::min(static_cast<std::int64_t>(frames) - part(right), logits.size(1));
      for (std::int64_t t = part(left); t < end; ++t) {
        const auto [id, score] = likeliest(logits.data<float>() + t * logits.size(2), logits.size(2));
        transcript.add(id < tokenizer.vocab_size() ? id : unknown, score);
      }
    }
    const std::int64_t done = windows.position() + static_cast<std::int64_t>(samples.size());
    if (options.on_progress)
      options.on_progress(windows.seconds(done), last ? windows.seconds(done) : windows.expected_seconds());
    if (last) return transcript.finish(windows.seconds(done));
    windows.skip(window - 2 * stride);
  }
  HEED_ASSERT(false, "the last window returns");
}

}  // namespace heed
