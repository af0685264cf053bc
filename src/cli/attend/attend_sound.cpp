// Recordings for heed attend: the window that is shown, and its words for a model of speech.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/attend/attend.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/terminal/signals.h"
#include "core/strings.h"
#include "files/input_file.h"
#include "heed/ops/shape.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "inspect/token_input.h"
#include "models/named_tensors.h"
#include "tasks/speech.h"

namespace heed::cli {
namespace {

// Of models that hear any number of samples: attention grows with the square of the time.
constexpr double kUsualSeconds = 20;

std::string shown_part(const std::string& file, double start, double seconds) {
  return fmt::format("{}: shown are {:g} s to {:.2f} s (--start SECONDS shows another part)", file, start,
                     start + seconds);
}

[[noreturn]] void fail_without_speech(const std::string& file, double start, double seconds, bool whole) {
  throw Error(fmt::format("{}: expected speech, got none from {:.2f} s to {:.2f} s{}", file, start,
                          start + seconds, whole ? "" : " (choose another part with --start)"));
}

// What the decoder reads, and after each position the token that follows; after the last, `end`.
void add_transcript(AttendInput& input, const std::vector<std::int64_t>& fed, std::int64_t end,
                    const AttendSource& source) {
  input.following.assign(fed.begin() + 1, fed.end());
  input.following.push_back(end);
  input.tensors["decoder_input_ids"] = inspect::one_row(fed);
  const std::vector<std::string> tokens = inspect::token_names(source.tokenizer, fed);
  input.tokens["decoder"] = {tokens, tokens};
  input.tokens["cross"].queries = inspect::token_names(source.tokenizer, input.following);
}

AttendInput speech_input(const AttendText& text, const EncoderDecoderModel& model,
                         const AttendSource& source) {
  const std::string file = shown_name(text.text);
  const SpeechSettings settings = load_speech_settings(source.directory.string(), model);
  const SoundProcessor processor = load_sound_processor(source.directory);
  TranscribeOptions options;
  options.stop = &stop_flag();
  GenerationOptions sampling{.do_sample = true};
  choose_seed(sampling, source.globals);
  options.seed = sampling.seed;
  const tasks::SpeechWindow window = tasks::transcribe_window(
      model, *source.tokenizer, settings, processor, SoundReader(text.text, {.rate = processor.rate()}),
      text.start.value_or(0), options);
  if (window.words.empty())
    fail_without_speech(file, window.offset, window.seconds, window.seconds >= window.recording);
  AttendInput input;
  if (window.seconds < window.recording) input.part = shown_part(file, window.offset, window.seconds);
  std::string transcript;
  input.sound = {window.offset, window.seconds, {}};
  input.window = static_cast<double>(window.features.size(2)) * window.seconds_per_frame;
  input.alignment_heads = settings.alignment_heads;
  std::vector<std::int64_t> fed = window.start;
  for (const TranscribedWord& word : window.words) {
    const std::int64_t first = std::ssize(fed) - 1;  // the position that predicts its first token
    fed.insert(fed.end(), word.tokens.begin(), word.tokens.end());
    input.sound.words.push_back({word.text, word.start, word.end, {first, std::ssize(fed) - 1}});
    transcript += word.text;
  }
  input.title = std::filesystem::path(file).filename().string() + " → " + std::string(trimmed(transcript));
  add_transcript(input, fed, settings.generation.eos_token_id.front(), source);
  input.tensors["input_features"] = window.features;
  return input;
}

// Of a decoder that reads samples, whose words have no times.
AttendInput sample_speech_input(const AttendText& text, const EncoderDecoderModel& model,
                                const AttendSource& source) {
  const std::string file = shown_name(text.text);
  const GenerationOptions generation = load_generation_options(source.directory);
  const SoundProcessor processor = load_sound_processor(source.directory);
  TranscribeOptions options;
  options.stop = &stop_flag();
  const tasks::HeardSamples window = tasks::transcribe_window(
      model, generation, processor, SoundReader(text.text, {.rate = processor.rate()}),
      text.start.value_or(0), options);
  const bool whole = window.offset == 0 && window.ends;
  const std::vector<QueryGroup> words = inspect::words_of(window.tokens, *source.tokenizer);
  if (words.empty()) fail_without_speech(file, window.offset, window.seconds, whole);
  AttendInput input;
  if (!whole) input.part = shown_part(file, window.offset, window.seconds);
  input.sound = {window.offset, window.seconds, {}};
  input.window = window.seconds;
  const std::int64_t before = std::ssize(window.start) - 1;  // positions before the one of the first token
  for (const QueryGroup& word : words)
    input.sound.words.push_back({word.label, 0, 0, {before + word.first, before + word.end}, false});
  input.title = std::filesystem::path(file).filename().string() + " → " +
                std::string(trimmed(source.tokenizer->decode_clean(window.tokens)));
  std::vector<std::int64_t> fed = window.start;
  fed.insert(fed.end(), window.tokens.begin(), window.tokens.end());
  add_transcript(input, fed,
                 generation.eos_token_id.empty() ? model.eos_id() : generation.eos_token_id.front(), source);
  input.tensors[model.input().name] = window.values;
  return input;
}

// At most `most` samples from `start` on, and whether there are more.
struct Part {
  Tensor samples;
  bool ends = true;
};

Part part_of(SoundReader& reader, double start, std::int64_t most) {
  const auto rate = static_cast<double>(reader.rate());
  std::vector<float> skipped(1 << 16), samples(static_cast<std::size_t>(most)), more(1);
  double left = std::floor(start * rate), position = 0;
  while (left > 0) {
    const std::size_t want = static_cast<std::size_t>(std::min(left, static_cast<double>(skipped.size())));
    const std::size_t got = reader.read(std::span(skipped).first(want));
    position += static_cast<double>(got);
    left -= static_cast<double>(got);
    if (got < want) tasks::fail_at_end(reader.name(), position / rate, start);
  }
  samples.resize(reader.read(samples));
  if (samples.empty()) tasks::fail_at_end(reader.name(), position / rate, start);
  const bool ends = std::ssize(samples) < most || reader.read(more) == 0;
  const std::int64_t count = std::ssize(samples);
  return {Tensor::from(samples, {count}), ends};
}

}  // namespace

AttendInput sound_input(const AttendText& text, const AttendSource& source) {
  if (text.pair || text.target || text.max_new_tokens)
    throw UsageError("--pair, --target, --max-new-tokens: expected none for a recording, got one");
  const InputSpec spec = source.model.input();
  if (const auto* both = dynamic_cast<const EncoderDecoderModel*>(&source.model)) {
    if (source.tokenizer == nullptr)
      static_cast<void>(load_tokenizer(source.directory));  // says what is missing
    return spec.kind == InputKind::waveform ? sample_speech_input(text, *both, source)
                                            : speech_input(text, *both, source);
  }
  const SoundProcessor processor = load_sound_processor(source.directory);
  SoundReader reader(text.text, {.rate = processor.rate()});
  const auto rate = static_cast<double>(processor.rate());
  const double start = text.start.value_or(0);
  const Part part =
      part_of(reader, start, processor.window().value_or(static_cast<std::int64_t>(kUsualSeconds * rate)));
  AttendInput input;
  input.title = std::filesystem::path(shown_name(text.text)).filename().string();
  const Tensor features = processor(part.samples, {.attention_mask = false}).features;
  if (!has_rows(features.shape(), spec.row)) {
    throw Error(
        fmt::format("{}: expected {} of rows {} after preprocessing, got {} (the sizes of "
                    "preprocessor_config.json are not those of config.json)",
                    shown_name(text.text), spec.name, row_text(spec.row), features.str()));
  }
  input.tensors[spec.name] = features;
  const double seconds = static_cast<double>(part.samples.numel()) / rate;
  if (spec.kind == InputKind::waveform) {
    input.window = seconds;
  } else {  // a grid of patches, of padding too
    input.window = static_cast<double>(*processor.window()) / rate;
  }
  input.sound = {start, input.window, {}};
  if (start > 0 || !part.ends) input.part = shown_part(shown_name(text.text), start, seconds);
  return input;
}

}  // namespace heed::cli
