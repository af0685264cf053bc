// What generation_config.json of a Whisper says, the languages it knows, and the checks of TranscribeOptions.
#include "core/edit_distance.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/find_model.h"
#include "heed/models/model.h"
#include "heed/tasks/transcribe.h"
#include "tasks/speech.h"

namespace heed {
namespace {

struct LanguageName {
  std::string_view code, name;
};

// OpenAI's whisper, tokenizer.py: LANGUAGES and TO_LANGUAGE_CODE.
constexpr LanguageName kLanguageNames[] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
    {"my", "burmese"},        {"ca", "valencian"},   {"nl", "flemish"},       {"ht", "haitian"},
    {"lb", "letzeburgesch"},  {"ps", "pushto"},      {"pa", "panjabi"},       {"ro", "moldavian"},
    {"ro", "moldovan"},       {"si", "sinhalese"},   {"es", "castilian"},     {"zh", "mandarin"}};

std::int64_t token_of(const Config& json, std::string_view key, std::int64_t vocab_size) {
  const std::int64_t id = json.required_integer(key);
  if (id < 0 || id >= vocab_size) json.fail(key, "a token below " + std::to_string(vocab_size));
  return id;
}

std::string code_of(const std::string& token) {  // <|en|>
  constexpr std::size_t kAround = 4;
  const bool marked = token.size() > kAround && token.rfind("<|", 0) == 0;
  return marked ? token.substr(2, token.size() - kAround) : token;
}

// [[1, null], [2, 50359]]: the language, the task and <|notimestamps|> of older files.
void read_forced_ids(const Config& json, SpeechSettings& settings) {
  const std::optional<Config> pairs = json.optional_sub("forced_decoder_ids");
  if (!pairs) return;
  for (const std::string& index : pairs->names()) {
    const Config pair = pairs->sub(index);
    pair.required_integer("0");
    const std::optional<std::int64_t> id = pair.optional_integer("1");
    if (!id) continue;
    for (const auto& [code, token] : settings.languages) {
      if (token == *id) settings.language = code;
    }
    if (id == settings.translate) settings.translates = true;
  }
}

void read_languages(const Config& json, std::int64_t vocab_size, SpeechSettings& settings) {
  const std::optional<Config> languages = json.optional_sub("lang_to_id"),
                              tasks = json.optional_sub("task_to_id");
  if (!json.boolean("is_multilingual", languages.has_value())) return;
  if (!languages) json.fail("lang_to_id", "the tokens of the languages, as is_multilingual is true");
  for (const std::string& token : languages->names())
    settings.languages.emplace_back(code_of(token), token_of(*languages, token, vocab_size));
  if (settings.languages.empty()) json.fail("lang_to_id", "at least one language");
  if (!tasks) json.fail("task_to_id", "the tokens of the tasks, as is_multilingual is true");
  settings.transcribe = token_of(*tasks, "transcribe", vocab_size);
  if (tasks->has("translate")) settings.translate = token_of(*tasks, "translate", vocab_size);
}

void read_heads(const Config& json, const Config& model, SpeechSettings& settings) {
  const std::int64_t layers = model.positive_integer("decoder_layers", 4);
  const std::int64_t heads = model.positive_integer("decoder_attention_heads", 6);
  if (const std::optional<Config> pairs = json.optional_sub("alignment_heads")) {
    for (const std::string& index : pairs->names()) {
      const std::vector<std::int64_t> pair = pairs->integers(index);
      if (pair.size() != 2 || pair[0] < 0 || pair[0] >= layers || pair[1] < 0 || pair[1] >= heads)
        json.fail("alignment_heads", "pairs of a layer below " + std::to_string(layers) +
                                         " and a head below " + std::to_string(heads));
      settings.alignment_heads.push_back({pair[0], pair[1]});
    }
  }
  if (!settings.alignment_heads.empty()) return;
  for (std::int64_t layer = layers / 2; layer < layers; ++layer) {  // as OpenAI's whisper without them
    for (std::int64_t head = 0; head < heads; ++head) settings.alignment_heads.push_back({layer, head});
  }
}

}  // namespace

SpeechSettings load_speech_settings(const std::string& directory, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused) {
  return load_speech_settings(model_files(directory), model, unused);
}

SpeechSettings load_speech_settings(const ModelFiles& files, const EncoderDecoderModel& model,
                                    std::vector<std::string>* unused) {
  constexpr const char* kFile = "generation_config.json";
  if (model.input().kind != InputKind::spectrogram)
    throw Error(files.where() + ": expected a model that takes spectrograms, such as whisper, got " +
                model.family() + ", which takes " + model.input().name);
  if (!files.has(kFile))
    throw Error(files.where(kFile) + ": not found (it has the tokens of languages, tasks and timestamps)");
  const Config json = Config::load(files, kFile), of_model = Config::load(files, "config.json");
  const std::int64_t vocab_size = model.vocab_size();
  std::vector<std::string> unknown;
  SpeechSettings settings;
  settings.generation = load_generation_options(files, &unknown);
  if (settings.generation.eos_token_id.empty()) settings.generation.eos_token_id = {model.eos_id()};
  if (settings.generation.eos_token_id.size() != 1) json.fail("eos_token_id", "one token");
  settings.start = settings.generation.decoder_start_token_id.value_or(model.decoder_start_id());
  settings.no_timestamps = token_of(json, "no_timestamps_token_id", vocab_size);
  if (settings.no_timestamps < 2)
    json.fail("no_timestamps_token_id", "a token after <|startofprev|> and <|nospeech|>");
  constexpr std::int64_t kBack = 2;  // <|startofprev|>, <|nospeech|>, <|notimestamps|>
  settings.previous_text = json.has("prev_sot_token_id") ? token_of(json, "prev_sot_token_id", vocab_size)
                                                         : settings.no_timestamps - kBack;
  settings.most_initial_timestamp = json.optional_integer("max_initial_timestamp_index");
  if (settings.most_initial_timestamp.value_or(0) < 0) json.fail("max_initial_timestamp_index", "0 or more");
  read_languages(json, vocab_size, settings);
  read_forced_ids(json, settings);
  if (const auto task = json.optional_string("task")) {
    if (*task != "transcribe" && *task != "translate") json.fail("task", "\"transcribe\" or \"translate\"");
    settings.translates = *task == "translate";
  }
  if (const auto language = json.optional_string("language"); language && settings.is_multilingual())
    settings.language = speech_language(settings, *language);
  read_heads(json, of_model, settings);
  settings.median_filter_width = of_model.positive_integer("median_filter_width", 7);
  if (settings.median_filter_width % 2 == 0) of_model.fail("median_filter_width", "an odd number");
  // return_timestamps, return_token_timestamps: TranscribeOptions says so. The rest is how transformers runs.
  json.ignore({"return_timestamps", "return_token_timestamps", "return_segments", "condition_on_prev_tokens",
               "compression_ratio_threshold", "logprob_threshold", "no_speech_threshold",
               "prompt_condition_type", "num_frames"});
  if (unused != nullptr) {
    const std::vector<std::string> others = json.unused();
    for (const std::string& key : unknown) {
      if (std::find(others.begin(), others.end(), key) != others.end()) unused->push_back(key);
    }
  }
  return settings;
}

std::string speech_language(const SpeechSettings& settings, const std::string& language) {
  if (!settings.is_multilingual())
    throw Error("language: expected none for a model of English only, got " + language);
  std::string code = ascii_lower(language);
  for (const LanguageName& known : kLanguageNames) {
    if (known.name == code) code = known.code;
  }
  std::vector<std::string> words;
  for (const auto& [known, id] : settings.languages) {
    if (known == code) return code;
    words.push_back(known);
    for (const LanguageName& name : kLanguageNames) {
      if (name.code == known) words.emplace_back(name.name);
    }
  }
  const std::string near = nearest_word(ascii_lower(language), words);
  throw Error("language: expected a code or the English name of one of the model's " +
              std::to_string(settings.languages.size()) + " languages, got " + language +
              (near.empty() ? " (such as en, French)" : " (did you mean " + near + "?)"));
}

std::string tasks::language_name(const std::string& code) {
  for (const LanguageName& known : kLanguageNames) {
    if (known.code == code) return std::string(known.name);
  }
  return code;
}

}  // namespace heed

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
