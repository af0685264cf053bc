// Forms as options, transcription window by window, and the forms of the answer.
#include "serve/speech.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/strings.h"
#include "heed/canceled.h"
#include "heed/core/utf8.h"
#include "heed/sound/sound.h"
#include "serve/paused_call.h"
#include "server/form_data.h"
#include "tasks/speech.h"

namespace heed::serve::openai {
namespace {

constexpr std::array kForms = {"json", "text", "srt", "verbose_json", "vtt"};

/// What a form asks for. It refers to the body of the request.
struct SpeechRequest {
  std::string_view sound;
  std::string form = "json";
  bool segments = false, words = false;  ///< that the answer shows
  bool stream = false;
  TranscribeOptions options;
};

// The fields of a form as JSON: `temperature` and `stream` as they are written, and `a[]` as an array.
Json fields_of(const std::vector<server::FormPart>& parts) {
  Json fields = Json::object();
  for (const server::FormPart& part : parts) {
    if (part.file || replace_invalid_utf8(part.name) != part.name) continue;
    const std::string text = replace_invalid_utf8(part.content);
    if ((part.name == "temperature" || part.name == "stream") && !text.empty()) {
      try {
        fields[part.name] = parse_json(text, part.name);
      } catch (const Error&) {
        fields[part.name] = text;  // which is then refused
      }
    } else if (part.name.ends_with("[]")) {
      Json& list = fields[part.name.substr(0, part.name.size() - 2)];
      if (!list.is_array()) list = Json::array();
      list.push_back(text);
    } else if (!text.empty()) {
      fields[part.name] = text;
    }
  }
  return fields;
}

const server::FormPart& sound_of(const std::vector<server::FormPart>& parts) {
  for (const server::FormPart& part : parts) {
    if (part.name == "file" && part.file) return part;
  }
  throw ApiError(Problem::empty, "request: file: expected a recording with a file name, got none", "file");
}

bool is_english(const std::string& language) {
  return language == "en" || language == "English" || language == "english";
}

SpeechRequest read_speech(const Transcriber& transcriber, const Fields& fields, bool translate) {
  SpeechRequest request;
  request.form = fields.string("response_format").value_or(request.form);
  if (std::find(kForms.begin(), kForms.end(), request.form) == kForms.end())
    fields.fail("response_format", "json, text, srt, verbose_json or vtt");
  const std::vector<std::string> shown = fields.strings("timestamp_granularities");
  for (const std::string& one : shown) {
    if (one != "segment" && one != "word") fields.fail("timestamp_granularities", "segment and word");
    (one == "word" ? request.words : request.segments) = true;
  }
  if (!shown.empty() && request.form != "verbose_json")
    fields.fail("timestamp_granularities", "none, unless response_format is verbose_json");
  request.segments = request.segments || shown.empty();
  request.stream = fields.boolean("stream").value_or(false);
  if (request.stream && request.form != "json" && request.form != "text")
    fields.fail("response_format", "json or text with stream");
  TranscribeOptions& options = request.options;
  options.word_times = request.words;
  options.prompt = fields.string("prompt").value_or("");
  const double temperature = fields.number("temperature", 0, 1).value_or(0);
  if (temperature > 0) options.temperatures = {temperature};  // 0: as the thresholds say
  if (translate) options.translate = true;
  const SpeechSettings* settings = transcriber.settings();
  if (translate && (settings == nullptr || !settings->is_multilingual()))
    throw ApiError(Problem::not_supported,
                   std::string("request: model: expected a multilingual Whisper, which translates, got ") +
                       (settings == nullptr ? "a model that only transcribes" : "an English-only Whisper"),
                   "model");
  options.language = fields.string("language");
  if (settings != nullptr && !settings->is_multilingual() && options.language &&
      is_english(*options.language))
    options.language.reset();
  if (settings != nullptr && options.language)
    options.language = speech_language(*settings, *options.language);
  transcriber.check(options);
  return request;
}

Json segment_json(const TranscriptSegment& segment, std::size_t id) {
  return {{"id", id},
          {"seek", 0},
          {"start", segment.start},
          {"end", segment.end},
          {"text", segment.text},
          {"tokens", segment.tokens},
          {"temperature", segment.temperature.value_or(0)},
          {"avg_logprob", segment.average_log_probability},
          {"compression_ratio", segment.compression_ratio.value_or(0)},
          {"no_speech_prob", segment.no_speech_probability.value_or(0)}};
}

Json verbose_json(const SpeechRequest& request, const Transcript& transcript) {
  Json answer = {{"task", request.options.translate.value_or(false) ? "translate" : "transcribe"},
                 {"language", tasks::language_name(transcript.language)},
                 {"duration", transcript.seconds},
                 {"text", trimmed(transcript.text)}};
  if (request.segments) {
    answer["segments"] = Json::array();
    for (std::size_t i = 0; i < transcript.segments.size(); ++i)
      answer["segments"].push_back(segment_json(transcript.segments[i], i));
  }
  if (request.words) {
    answer["words"] = Json::array();
    for (const TranscriptSegment& segment : transcript.segments) {
      for (const TranscribedWord& word : segment.words)
        answer["words"].push_back({{"word", trimmed(word.text)}, {"start", word.start}, {"end", word.end}});
    }
  }
  return answer;
}

Json usage_of(const Transcript& transcript) {
  return {{"type", "duration"}, {"seconds", transcript.seconds}};
}

server::HttpResponse speech_answer(const SpeechRequest& request, const Transcript& transcript) {
  if (request.form == "srt")
    return {200, written(transcript, TranscriptForm::srt), "application/x-subrip; charset=utf-8"};
  if (request.form == "vtt")
    return {200, written(transcript, TranscriptForm::vtt), "text/vtt; charset=utf-8"};
  const std::string text(trimmed(transcript.text));
  if (request.form == "text") return {200, text + "\n", "text/plain; charset=utf-8"};
  Json answer = request.form == "json" ? Json{{"text", text}} : verbose_json(request, transcript);
  answer["usage"] = usage_of(transcript);
  return {200, json_text(answer)};
}

// A transcript as events, a segment each, whose texts together are the whole one.
class SpeechEvents {
 public:
  /// `spaced`: whether the segments' own texts say where spaces are, as those of Whisper do.
  SpeechEvents(Call& call, bool spaced) : call_(call), spaced_(spaced) {}

  void segment(const std::string& text) {
    if (spaced_) {
      waiting_ += text;
    } else if (!trimmed(text).empty()) {
      waiting_ += " " + std::string(trimmed(text));
    }
    const std::string_view added = trimmed(waiting_);
    if (added.empty()) return;
    const auto begin = static_cast<std::size_t>(added.data() - waiting_.data()), end = begin + added.size();
    send({{"type", "transcript.text.delta"},
          {"delta", has_text_ ? waiting_.substr(0, end) : waiting_.substr(begin, end - begin)}});
    waiting_.erase(0, end);  // spaces, which the next one may follow
    has_text_ = true;
  }

  void finish(const Transcript& transcript) {
    send({{"type", "transcript.text.done"},
          {"text", trimmed(transcript.text)},
          {"usage", usage_of(transcript)}});
    call_.end_events();
  }

 private:
  // The answer begins with the first event: until then, an error has a status of its own.
  void send(const Json& event) {
    if (!std::exchange(begun_, true)) call_.begin_events();
    call_.event(event);
  }

  Call& call_;
  bool spaced_, begun_ = false, has_text_ = false;
  std::string waiting_;
};

// The call gives its turn back after each window.
std::shared_ptr<PausedCall> started_speech(const std::shared_ptr<Call>& call, const ServedModel& model,
                                           SpeechRequest request) {
  return std::make_shared<PausedCall>(
      [call, &model, request = std::move(request)](const PausedCall::Pause& pause) {
        TranscribeOptions options = request.options;
        options.stop = &call->stop();
        options.on_progress = [&](double, double) { pause(); };
        SoundReader sound(request.sound, "file", {.rate = model.transcriber->rate()});
        if (!request.stream)
          return call->answer(speech_answer(request, (*model.transcriber)(std::move(sound), options)));
        SpeechEvents events(*call, model.transcriber->settings() != nullptr);
        options.on_segment = [&](const TranscriptSegment& segment) { events.segment(segment.text); };
        events.finish((*model.transcriber)(std::move(sound), options));
      });
}

void answer_speech(const Asked& asked, bool translate) {
  const server::HttpRequest& request = asked.call->request();
  const std::vector<server::FormPart> parts = server::parse_form(request.content_type, request.body);
  const Json form = fields_of(parts);
  const Fields fields(form);
  const ServedModel& model =
      chosen_model({asked.services, asked.scheduler, asked.call, fields}, transcribes, "transcribes speech");
  const server::FormPart& sound = sound_of(parts);
  SpeechRequest speech = read_speech(*model.transcriber, fields, translate);
  speech.sound = sound.content;
  auto job = std::make_shared<PassJob>();
  job->call = asked.call;
  job->model = &model;
  job->pass = [call = asked.call, running = started_speech(asked.call, model, std::move(speech))] {
    try {
      return running->resume();
    } catch (const Canceled&) {
      return true;                  // the next turn tells why
    } catch (const Error& error) {  // of a file that is no recording, for example
      call->fail(ApiError(Problem::invalid, error.what(), "file"));
      return false;
    }
  };
  asked.scheduler.add(std::move(job));
}

}  // namespace

bool transcribes(const ServedModel& model) { return model.transcriber.has_value(); }

void transcriptions(const Asked& asked) { answer_speech(asked, false); }

void translations(const Asked& asked) { answer_speech(asked, true); }

}  // namespace heed::serve::openai
