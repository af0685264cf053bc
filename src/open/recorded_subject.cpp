// Recordings as subjects: the part that is shown, and its words for a model of speech.
#include "heed/open/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/strings.h"
#include "heed/models/kind.h"
#include "heed/open/loaded_model.h"
#include "heed/sound/processor.h"
#include "heed/sound/sound.h"
#include "inspect/token_input.h"
#include "models/named_tensors.h"
#include "tasks/speech.h"

namespace heed {
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

std::string title_of(const std::string& file) { return std::filesystem::path(file).filename().string(); }

// What the decoder reads, and after each position the token that follows; after the last, `end`.
void add_transcript(Subject& subject, const std::vector<std::int64_t>& read, std::int64_t end,
                    const Tokenizer& tokenizer) {
  subject.read = read;
  subject.following.assign(read.begin() + 1, read.end());
  subject.following.push_back(end);
  subject.inputs["decoder_input_ids"] = inspect::one_row(read);
  const std::vector<std::string> tokens = inspect::token_names(&tokenizer, read);
  subject.tokens["decoder"] = {tokens, tokens};
  subject.tokens["cross"].queries = inspect::token_names(&tokenizer, subject.following);
}

Subject of_whisper(const LoadedModel& model, SoundReader reader, const SubjectRequest& request) {
  const std::string file = reader.name();
  const EncoderDecoderModel& both = model.encoder_decoder();
  const SpeechSettings settings = load_speech_settings(model.files(), both);
  TranscribeOptions options;
  options.stop = request.stop;
  if (request.seed) options.seed = request.seed();
  const tasks::SpeechWindow window =
      tasks::transcribe_window(both, model.tokenizer(), settings, model.sound_processor(), std::move(reader),
                               request.start.value_or(0), options);
  if (window.words.empty())
    fail_without_speech(file, window.offset, window.seconds, window.seconds >= window.recording);
  Subject subject;
  if (window.seconds < window.recording) subject.note = shown_part(file, window.offset, window.seconds);
  std::string transcript;
  subject.sound = {window.offset, window.seconds, {}};
  subject.window = static_cast<double>(window.features.size(2)) * window.seconds_per_frame;
  subject.alignment_heads = settings.alignment_heads;
  subject.prefix = std::ssize(window.start);
  std::vector<std::int64_t> read = window.start;
  for (const TranscribedWord& word : window.words) {
    const std::int64_t first = std::ssize(read) - 1;  // the position that predicts its first token
    read.insert(read.end(), word.tokens.begin(), word.tokens.end());
    subject.sound.words.push_back({word.text, word.start, word.end, {first, std::ssize(read) - 1}});
    transcript += word.text;
  }
  subject.title = title_of(file) + " → " + std::string(trimmed(transcript));
  add_transcript(subject, read, settings.generation.eos_token_id.front(), model.tokenizer());
  subject.inputs["input_features"] = window.features;
  return subject;
}

// Of a decoder that reads samples, whose words have no times.
Subject of_moonshine(const LoadedModel& model, SoundReader reader, const SubjectRequest& request) {
  const std::string file = reader.name();
  const EncoderDecoderModel& both = model.encoder_decoder();
  const GenerationOptions generation = load_generation_options(model.files());
  TranscribeOptions options;
  options.stop = request.stop;
  const tasks::HeardSamples window = tasks::transcribe_window(
      both, generation, model.sound_processor(), std::move(reader), request.start.value_or(0), options);
  const bool whole = window.offset == 0 && window.ends;
  const std::vector<QueryGroup> words = inspect::words_of(window.tokens, model.tokenizer());
  if (words.empty()) fail_without_speech(file, window.offset, window.seconds, whole);
  Subject subject;
  if (!whole) subject.note = shown_part(file, window.offset, window.seconds);
  subject.sound = {window.offset, window.seconds, {}};
  subject.window = window.seconds;
  const std::int64_t before = std::ssize(window.start) - 1;  // positions before the one of the first token
  for (const QueryGroup& word : words)
    subject.sound.words.push_back({word.label, 0, 0, {before + word.first, before + word.end}, false});
  subject.title =
      title_of(file) + " → " + std::string(trimmed(model.tokenizer().decode_clean(window.tokens)));
  subject.prefix = std::ssize(window.start);
  std::vector<std::int64_t> read = window.start;
  read.insert(read.end(), window.tokens.begin(), window.tokens.end());
  add_transcript(subject, read,
                 generation.eos_token_id.empty() ? both.eos_id() : generation.eos_token_id.front(),
                 model.tokenizer());
  subject.inputs[both.input().name] = window.values;
  return subject;
}

// At most `most` samples from `start` on, and whether there are more.
struct Part {
  Tensor samples;
  bool ends = true;
};

Part part_of(SoundReader reader, double start, std::int64_t most) {
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
  return {tasks::tensor_of(samples), ends};
}

Subject of_encoder(const LoadedModel& model, SoundReader reader, const SubjectRequest& request) {
  const InputSpec spec = model.model().input();
  const std::string file = reader.name();
  const SoundProcessor& processor = model.sound_processor();
  const auto rate = static_cast<double>(processor.rate());
  const double start = request.start.value_or(0);
  const Part part = part_of(std::move(reader), start,
                            processor.window().value_or(static_cast<std::int64_t>(kUsualSeconds * rate)));
  Subject subject;
  subject.title = title_of(file);
  const Tensor features = processor(part.samples, {.attention_mask = false}).features;
  if (!has_rows(features.shape(), spec.row)) {
    throw Error(
        fmt::format("{}: expected {} of rows {} after preprocessing, got {} (the sizes of "
                    "preprocessor_config.json are not those of config.json)",
                    file, spec.name, row_text(spec.row), features.str()));
  }
  subject.inputs[spec.name] = features;
  const double seconds = static_cast<double>(part.samples.numel()) / rate;
  // A grid of patches has those of padding too.
  subject.window =
      spec.kind == InputKind::waveform ? seconds : static_cast<double>(*processor.window()) / rate;
  subject.sound = {start, subject.window, {}};
  if (start > 0 || !part.ends) subject.note = shown_part(file, start, seconds);
  return subject;
}

}  // namespace

Subject subject_of_recording(const LoadedModel& model, const SubjectRequest& request) {
  const bool decodes = traits_of(model.model()).is(ModelKind::encoder_decoder);
  if (decodes) static_cast<void>(model.tokenizer());  // says what is missing, before the file is read
  const SoundOptions options{.rate = model.sound_processor().rate(), .on_warning = request.on_warning};
  return subject_of_recording(model, SoundReader(request.given, options), request);
}

Subject subject_of_recording(const LoadedModel& model, SoundReader reader, const SubjectRequest& request) {
  if (!traits_of(model.model()).is(ModelKind::encoder_decoder))
    return of_encoder(model, std::move(reader), request);
  return model.model().input().kind == InputKind::waveform ? of_moonshine(model, std::move(reader), request)
                                                           : of_whisper(model, std::move(reader), request);
}

}  // namespace heed
