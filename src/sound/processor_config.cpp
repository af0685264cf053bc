// The defaults of transformers' feature extractors, and the keys of preprocessor_config.json.
#include "sound/processor_config.h"

#include <array>
#include <string_view>
#include <vector>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "io/processor_config.h"

namespace heed::sound {
namespace {

/// One of transformers' classes.
struct ProcessorClass {
  std::string_view name;
  ProcessorKind kind;
  std::vector<std::string_view> model_types;  // of models whose files name no class
};

const std::vector<ProcessorClass>& processor_classes() {
  static const std::vector<ProcessorClass> classes{
      {"ASTFeatureExtractor", ProcessorKind::kaldi, {"audio-spectrogram-transformer"}},
      {"Wav2Vec2FeatureExtractor",
       ProcessorKind::waveform,
       {"wav2vec2", "moonshine", "hubert", "wavlm", "data2vec-audio", "unispeech", "unispeech-sat", "sew",
        "sew-d"}},
      {"WhisperFeatureExtractor", ProcessorKind::whisper, {"whisper"}},
  };
  return classes;
}

/// A key that has one possible value only.
void check_integer(const Config& json, std::string_view name, std::int64_t value, std::string_view why) {
  if (json.integer(name, value) != value) {
    json.fail(name, std::to_string(value) + " (" + std::string(why) + ")");
  }
}

double finite_float(const Config& json, std::string_view name, double default_value) {
  constexpr double kMost = 1e30;  // so that f32 holds it
  const double value = json.number(name, default_value);
  if (!(value >= -kMost && value <= kMost)) json.fail(name, "a number that f32 holds");
  return value;
}

void read_whisper(const Config& json, ExtractorSettings& settings) {
  constexpr std::int64_t kMostBands = 1024, kMostFft = 8192, kMostSeconds = 600;
  const std::int64_t bands = integer_within(json, "feature_size", 1, kMostBands, 80);
  const std::int64_t fft_size = integer_within(json, "n_fft", 2, kMostFft, 400);
  if (fft_size % 2 != 0) json.fail("n_fft", "an even integer");
  settings.frame = fft_size;
  settings.window = settings.rate * integer_within(json, "chunk_length", 1, kMostSeconds, 30);
  settings.hop = integer_within(json, "hop_length", 16, settings.window, 160);
  settings.most_frames = settings.window / settings.hop;
  if (settings.window <= fft_size) json.fail("n_fft", "fewer samples than chunk_length · sampling_rate");
  check_integer(json, "n_samples", settings.window, "chunk_length · sampling_rate");
  check_integer(json, "nb_max_frames", settings.most_frames, "chunk_length · sampling_rate / hop_length");
  if (json.number("dither", 0) != 0) json.fail("dither", "0 (heed adds no noise)");
  // mel_filters follow from the other keys; transformers' class does not read it either, nor do_normalize.
  json.ignore({"mel_filters", "do_normalize"});
  settings.spectrogram.emplace(
      SpectrogramSettings{.frame = fft_size, .hop = settings.hop, .fft_size = fft_size},
      MelFilters::slaney(bands, fft_size, settings.rate));
}

void read_kaldi(const Config& json, ExtractorSettings& settings) {
  constexpr std::int64_t kMostBands = 1024, kMostFrames = 100'000, kFft = 512;
  check_integer(json, "sampling_rate", 16'000, "frames of 25 ms are 400 samples");
  check_integer(json, "feature_size", 1, "the number of channels");
  const std::int64_t bands = integer_within(json, "num_mel_bins", 1, kMostBands, 128);
  settings.most_frames = integer_within(json, "max_length", 1, kMostFrames, 1024);
  settings.frame = 400;
  settings.hop = 160;
  settings.window = settings.frame + settings.hop * (settings.most_frames - 1);
  settings.do_normalize = json.boolean("do_normalize", true);
  settings.mean = finite_float(json, "mean", -4.2677393);
  settings.std = finite_float(json, "std", 4.5689974);
  if (settings.std == 0) json.fail("std", "a number other than 0");
  settings.spectrogram.emplace(SpectrogramSettings{.frame = settings.frame,
                                                   .hop = settings.hop,
                                                   .fft_size = kFft,
                                                   .centered = false,
                                                   .periodic_window = false,
                                                   .remove_mean = true,
                                                   .preemphasis = 0.97,
                                                   .floor = 0x1p-23,
                                                   .base_10 = false,
                                                   .bands_first = false},
                               MelFilters::kaldi(bands, kFft, settings.rate));
}

void read_waveform(const Config& json, ExtractorSettings& settings) {
  check_integer(json, "feature_size", 1, "the number of channels");
  settings.do_normalize = json.boolean("do_normalize", true);
}

}  // namespace

std::shared_ptr<const ExtractorSettings> load_processor_settings(const ModelFiles& model) {
  const Config json = load_processor_config(model, "feature_extractor", "how sound becomes a model's input");
  const ProcessorClass* known =
      find_processor_class(processor_classes(), json.optional_string("feature_extractor_type"), model);
  if (known == nullptr)
    json.fail("feature_extractor_type", "one of " + joined(processor_classes(), ", ", &ProcessorClass::name));
  auto settings = std::make_shared<ExtractorSettings>();
  settings->type = known->name;
  settings->where = json.where();
  settings->kind = known->kind;
  settings->rate = integer_within(json, "sampling_rate", 1000, 192'000, 16'000);
  settings->padding_value = static_cast<float>(finite_float(json, "padding_value", 0));
  if (json.string("padding_side", "right") != "right") json.fail("padding_side", "\"right\"");
  settings->attention_mask = json.boolean("return_attention_mask", false);
  switch (known->kind) {
    case ProcessorKind::whisper: read_whisper(json, *settings); break;
    case ProcessorKind::kaldi: read_kaldi(json, *settings); break;
    case ProcessorKind::waveform: read_waveform(json, *settings); break;
  }
  json.ignore(
      {"feature_extractor_type", "processor_class", "auto_map", "_name_or_path", "transformers_version"});
  const std::vector<std::string> unused = json.unused();
  if (!unused.empty()) {
    throw Error(json.where() + ": " + unused.front() + ": expected a key of " + settings->type +
                " that heed knows, got another (what it changes is unknown)");
  }
  return settings;
}

}  // namespace heed::sound
