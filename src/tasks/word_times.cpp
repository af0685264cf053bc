// Times of words from attention, by dynamic time warping, as OpenAI's whisper finds them.
#include "tasks/speech.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/nn/tap.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed::tasks {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kBefore = "\"'“¿([{-";                // joins the word after it
constexpr std::string_view kAfter = "\"'.。,，!！?？:：”)]}、";  // joins the word before it
constexpr std::string_view kSentenceEnds = ".。!！?？";

struct Timing {
  std::string word;
  std::vector<std::int64_t> tokens;
  double start = 0, end = 0, probability = 0;
};

bool within(std::string_view part, std::string_view text) { return text.find(part) != text.npos; }

bool starts_with_space(const std::string& word) { return !word.empty() && word.front() == ' '; }

// Tokens that are whole characters together.
SplitWords split_characters(const Tokenizer& tokenizer, std::span<const std::int64_t> tokens) {
  const std::string whole = tokenizer.decode(tokens, false);
  SplitWords split;
  std::vector<std::int64_t> current;
  std::size_t at = 0;  // in bytes: a replaced character counts the same in both texts
  for (const std::int64_t token : tokens) {
    current.push_back(token);
    const std::string text = tokenizer.decode(current, false);
    const std::size_t replaced = text.find(kReplacement);
    if (replaced != text.npos &&
        whole.compare(std::min(at + replaced, whole.size()), kReplacement.size(), kReplacement) != 0)
      continue;
    split.words.push_back(text);
    split.tokens.push_back(std::move(current));
    current.clear();
    at += text.size();
  }
  return split;
}

}  // namespace

SplitWords split_words(const Tokenizer& tokenizer, std::span<const std::int64_t> tokens, bool by_characters) {
  SplitWords parts = split_characters(tokenizer, tokens);
  if (by_characters) return parts;
  SplitWords split;
  for (std::size_t i = 0; i < parts.words.size(); ++i) {
    const std::string& part = parts.words[i];
    if (split.words.empty() || starts_with_space(part) || within(trimmed(part), kAsciiPunctuation)) {
      split.words.push_back(part);
      split.tokens.push_back(parts.tokens[i]);
    } else {
      split.words.back() += part;
      split.tokens.back().insert(split.tokens.back().end(), parts.tokens[i].begin(), parts.tokens[i].end());
    }
  }
  return split;
}

std::vector<std::int64_t> warp_times(std::span<const float> costs, std::int64_t rows, std::int64_t columns) {
  enum Step : std::uint8_t { both, row, column };
  constexpr float kFar = std::numeric_limits<float>::infinity();
  std::vector<float> above(static_cast<std::size_t>(columns + 1), kFar), sums(above);
  above[0] = 0;
  std::vector<std::uint8_t> steps(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    sums[0] = kFar;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const float diagonal = above[at], up = above[at + 1], left = sums[at];
      const auto cell = static_cast<std::size_t>(i * columns + j);
      float least = left;
      steps[cell] = column;
      if (diagonal < up && diagonal < left) {
        least = diagonal;
        steps[cell] = both;
      } else if (up < diagonal && up < left) {
        least = up;
        steps[cell] = row;
      }
      sums[at + 1] = costs[cell] + least;
    }
    std::swap(above, sums);
  }
  std::vector<std::int64_t> first(static_cast<std::size_t>(rows), 0);
  std::int64_t i = rows - 1, j = columns - 1;
  while (i >= 0 && j >= 0) {
    first[static_cast<std::size_t>(i)] = j;
    const std::uint8_t step = steps[static_cast<std::size_t>(i * columns + j)];
    if (step != row) --j;
    if (step != column) --i;
  }
  return first;
}

void median_filter(std::span<float> values, std::int64_t width) {
  const std::int64_t half = width / 2, count = std::ssize(values);
  if (count <= half) return;
  const std::vector<float> from(values.begin(), values.end());
  std::vector<float> around(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = -half; k <= half; ++k) {
      std::int64_t at = std::abs(i + k);
      if (at >= count) at = 2 * (count - 1) - at;
      around[static_cast<std::size_t>(k + half)] = from[static_cast<std::size_t>(at)];
    }
    const auto middle = around.begin() + half;
    std::nth_element(around.begin(), middle, around.end());
    values[static_cast<std::size_t>(i)] = *middle;
  }
}

namespace {

// Of one head [tokens, positions]: each position's attention relative to its mean and deviation over the
// tokens, smoothed over the positions.
void standardize(std::span<float> weights, std::int64_t tokens, std::int64_t positions, std::int64_t width) {
  for (std::int64_t p = 0; p < positions; ++p) {
    double sum = 0, squares = 0;
    for (std::int64_t t = 0; t < tokens; ++t) sum += weights[static_cast<std::size_t>(t * positions + p)];
    const double mean = sum / static_cast<double>(tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double from_mean = weights[static_cast<std::size_t>(t * positions + p)] - mean;
      squares += from_mean * from_mean;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(tokens));
    for (std::int64_t t = 0; t < tokens; ++t) {
      float& weight = weights[static_cast<std::size_t>(t * positions + p)];
      weight = deviation > 0 ? static_cast<float>((weight - mean) / deviation) : 0.0F;
    }
  }
  const auto row = static_cast<std::size_t>(positions);
  for (std::int64_t t = 0; t < tokens; ++t)
    median_filter(weights.subspan(static_cast<std::size_t>(t) * row, row), width);
}

// What a forward pass over a window's text gives.
struct Alignment {
  std::vector<float> attention;       // [rows, positions]: rows of <|notimestamps|> and of the text
  std::vector<double> probabilities;  // of the text's tokens
};

Alignment align(const WordWindow& window, std::span<const std::int64_t> text, Context& context) {
  const SpeechSettings& settings = window.settings;
  std::vector<std::int64_t> ids(window.start.begin(), window.start.end());
  const auto first = std::ssize(ids);  // the row that predicts the first token
  ids.push_back(settings.no_timestamps);
  ids.insert(ids.end(), text.begin(), text.end());
  ids.push_back(settings.generation.eos_token_id.front());
  const auto count = std::ssize(ids), rows = std::ssize(text) + 1, positions = window.positions;

  Alignment found;
  found.attention.assign(static_cast<std::size_t>(rows * positions), 0.0F);
  std::map<std::int64_t, std::vector<std::int64_t>> layers;
  for (const auto& [layer, head] : settings.alignment_heads) layers[layer].push_back(head);
  Taps taps(context.taps);
  for (auto& [layer, heads] : layers) {
    std::sort(heads.begin(), heads.end());
    heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
    taps.listen("decoder.layers." + std::to_string(layer) + ".cross_attn.scores",
                {.heads = heads, .keys = {0, positions}}, [&](const std::string&, Tensor& scores) {
                  Tensor weights = softmax(scores.to(DType::f32).contiguous(), -1).clone();
                  for (std::int64_t head = 0; head < weights.size(1); ++head) {
                    const std::span one(weights.data<float>() + head * count * positions,
                                        static_cast<std::size_t>(count * positions));
                    standardize(one, count, positions, settings.median_filter_width);
                    for (std::size_t i = 0; i < found.attention.size(); ++i)
                      found.attention[i] += one[static_cast<std::size_t>(first * positions) + i];
                  }
                });
  }
  Tensor last;
  taps.listen("decoder.final_norm", [&](const std::string&, Tensor& hidden) { last = hidden; });
  Context listening = context;
  listening.taps = &taps;
  window.decoding.truncate(0);
  window.decoding.step(Tensor::from(ids, {1, count}), listening);
  taps.require_all_fired();

  const std::int64_t end = settings.generation.eos_token_id.front();
  ReadOut read_out = *window.model.read_out();
  read_out.norm.reset();  // the tap comes after it
  const Tensor rows_of_text = slice(last, 1, first, first + std::ssize(text));
  const Tensor logits = slice(read_out.logits(rows_of_text.contiguous()), 2, 0, end);
  const Tensor probabilities = softmax(logits.to(DType::f32).contiguous(), -1);
  for (std::size_t i = 0; i < text.size(); ++i)
    found.probabilities.push_back(
        static_cast<double>(probabilities.data<float>()[static_cast<std::int64_t>(i) * end + text[i]]));
  return found;
}

std::vector<Timing> timings_of(const WordWindow& window, std::span<const std::int64_t> text,
                               Context& context) {
  if (text.empty() || window.positions == 0) return {};
  Alignment alignment = align(window, text, context);
  for (float& value : alignment.attention) value = -value;
  const std::vector<std::int64_t> times =
      warp_times(alignment.attention, std::ssize(text) + 1, window.positions);
  const auto seconds = [&](std::size_t row) {
    return static_cast<double>(times[row]) * window.seconds_per_position;
  };
  constexpr std::string_view kWithoutSpaces[] = {"zh", "ja", "th", "lo", "my", "yue"};
  const bool by_characters = std::find(std::begin(kWithoutSpaces), std::end(kWithoutSpaces),
                                       window.language) != std::end(kWithoutSpaces);
  const SplitWords split = split_words(window.tokenizer, text, by_characters);
  std::vector<Timing> timings;
  std::size_t at = 0;
  for (std::size_t i = 0; i < split.words.size(); ++i) {
    const std::size_t next = at + split.tokens[i].size();
    double sum = 0;
    for (std::size_t t = at; t < next; ++t) sum += alignment.probabilities[t];
    timings.push_back({split.words[i], split.tokens[i], seconds(at), seconds(next),
                       sum / static_cast<double>(split.tokens[i].size())});
    at = next;
  }
  return timings;
}

double median_duration(const std::vector<Timing>& timings) {
  std::vector<double> durations;
  for (const Timing& one : timings) {
    if (one.end != one.start) durations.push_back(one.end - one.start);
  }
  if (durations.empty()) return 0;
  std::sort(durations.begin(), durations.end());
  const std::size_t half = durations.size() / 2;
  const double median =
      durations.size() % 2 == 1 ? durations[half] : (durations[half - 1] + durations[half]) / 2;
  constexpr double kMost = 0.7;
  return std::min(kMost, median);
}

// Words at the ends of sentences are at most twice as long as usual: the pause is not theirs.
void shorten_at_sentence_ends(std::vector<Timing>& timings, double most) {
  for (std::size_t i = 1; i < timings.size(); ++i) {
    Timing& one = timings[i];
    if (one.end - one.start <= most) continue;
    if (within(one.word, kSentenceEnds)) {
      one.end = one.start + most;
    } else if (within(timings[i - 1].word, kSentenceEnds)) {
      one.start = one.end - most;
    }
  }
}

void join(Timing& first, Timing& second, bool into_first) {
  Timing& to = into_first ? first : second;
  Timing& from = into_first ? second : first;
  to.word = first.word + second.word;
  first.tokens.insert(first.tokens.end(), second.tokens.begin(), second.tokens.end());
  to.tokens = first.tokens;
  from.word.clear();
  from.tokens.clear();
}

void join_punctuation(std::vector<Timing>& timings) {
  for (std::int64_t i = std::ssize(timings) - 2, j = i + 1; i >= 0; --i) {
    Timing& before = timings[static_cast<std::size_t>(i)];
    if (starts_with_space(before.word) && within(trimmed(before.word), kBefore)) {
      join(before, timings[static_cast<std::size_t>(j)], false);
    } else {
      j = i;
    }
  }
  for (std::size_t i = 0, j = 1; j < timings.size(); ++j) {
    Timing& word = timings[i];
    const bool open = word.word.empty() || word.word.back() != ' ';
    if (open && within(timings[j].word, kAfter)) {
      join(word, timings[j], true);
    } else {
      i = j;
    }
  }
}

double to_hundredths(double seconds) { return std::nearbyint(seconds * 100) / 100; }

// A segment's first words do not include the pause before them, and both ends agree with its timestamps where
// a word is too long.
void adjust(TranscriptSegment& segment, double median, double most, double last_speech) {
  std::vector<TranscribedWord>& words = segment.words;
  TranscribedWord& first = words.front();
  const auto is_long = [&](double seconds) { return seconds > most; };
  const bool pair_is_long = words.size() > 1 && words[1].end - first.start > most * 2;
  if (first.end - last_speech > median * 4 && (is_long(first.end - first.start) || pair_is_long)) {
    if (words.size() > 1 && is_long(words[1].end - words[1].start))
      first.end = words[1].start = std::max(words[1].end / 2, words[1].end - most);
    first.start = std::max(0.0, first.end - most);
  }
  constexpr double kTolerance = 0.5;
  if (segment.start < first.end && segment.start - kTolerance > first.start) {
    first.start = std::max(0.0, std::min(first.end - median, segment.start));
  } else {
    segment.start = first.start;
  }
  TranscribedWord& last = words.back();
  if (segment.end > last.start && segment.end + kTolerance < last.end) {
    last.end = std::max(last.start + median, segment.end);
  } else {
    segment.end = last.end;
  }
}

}  // namespace

void add_word_times(const WordWindow& window, std::vector<TranscriptSegment>& segments, double& last_speech,
                    Context& context) {
  const std::int64_t end = window.settings.generation.eos_token_id.front();
  std::vector<std::int64_t> text;
  std::vector<std::size_t> counts;  // of the text's tokens, by segment
  for (const TranscriptSegment& segment : segments) {
    const std::size_t before = text.size();
    std::copy_if(segment.tokens.begin(), segment.tokens.end(), std::back_inserter(text),
                 [&](std::int64_t id) { return id < end; });
    counts.push_back(text.size() - before);
  }
  if (const auto positions = window.model.max_positions()) {  // without timestamps there is room, in general
    const std::int64_t room = *positions - std::ssize(window.start) - 2;
    text.resize(static_cast<std::size_t>(std::min(std::ssize(text), std::max<std::int64_t>(room, 0))));
  }
  std::vector<Timing> timings = timings_of(window, text, context);
  const double median = median_duration(timings), most = 2 * median;
  if (median > 0) shorten_at_sentence_ends(timings, most);
  join_punctuation(timings);
  std::size_t next = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    TranscriptSegment& segment = segments[i];
    for (std::size_t saved = 0; next < timings.size() && saved < counts[i]; ++next) {
      const Timing& one = timings[next];
      saved += one.tokens.size();
      if (one.word.empty()) continue;
      segment.words.push_back({one.word, to_hundredths(window.offset + one.start),
                               to_hundredths(window.offset + one.end), one.probability, one.tokens});
    }
    if (segment.words.empty()) continue;
    adjust(segment, median, most, last_speech);
    last_speech = segment.end;
  }
}

}  // namespace heed::tasks
