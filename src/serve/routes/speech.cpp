// OpenAI's routes of speech: a recording in a form becomes text, window by window.
#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "heed/core/utf8.h"
#include "heed/error.h"
#include "heed/sound/sound.h"
#include "serve/routes/routes.h"
#include "server/worker_threads.h"
#include "tasks/speech.h"

namespace heed::serve {
namespace {

constexpr double kMostSeconds = 4 * 3600;  // of a recording

struct SpeechFields {
  void walk(Fields& fields) {
    if (fields.reads() == nullptr) {
      std::string file;
      fields("file", file, "The recording (WAV, FLAC, Ogg, MP3) of at most 4 hours, at most `--max-body`",
             {.required = "a recording"});
    }
    fields("language", language,
           "That is spoken, as code or English name (`fr`, `French`); else it is detected");
    fields("prompt", prompt, "Text that seems to precede the recording: names, spelling, style");
    fields("response_format", form, "The text, or with `verbose_json` also its segments",
           {.words = {"json", "text", "srt", "verbose_json", "vtt"}});
    fields("temperature", temperature,
           "0: the likeliest text, at higher ones where it seems wrong; else this one alone",
           {.least = 0, .most = 1});
    fields("timestamp_granularities", shown, "`segment`, `word`: what `verbose_json` shows", {.items = 8});
    fields("stream", stream,
           "Events, `transcript.text.delta` with the text of each segment (`delta`) as soon as it is final, "
           "and `transcript.text.done` with all of it (`text`)");
  }
  std::optional<std::string> language;
  std::string prompt, form = "json";
  double temperature = 0;
  std::vector<std::string> shown;
  bool stream = false;
};

/// What a form asks for. It refers to the body of the request.
struct SpeechRequest {
  std::string_view sound;
  std::string form = "json";
  bool segments = false, words = false;  ///< that the answer shows
  bool stream = false;
  TranscribeOptions options;
};

std::string_view sound_of(const Call& call) {
  for (const auto& [name, content] : server::files_of(call.request())) {
    if (name == "file") return content;
  }
  throw ApiError(ErrorCode::empty, "request: file: expected a recording with a file name, got none", "file");
}

bool is_english(const std::string& language) {
  return language == "en" || language == "English" || language == "english";
}

SpeechRequest speech_request(const RequestContext& context, SpeechFields& given, bool translate) {
  const Transcriber& transcriber = context.model.opened.transcriber();
  const Fields& fields = context.fields;
  SpeechRequest request;
  for (const std::string& one : given.shown) {
    if (one != "segment" && one != "word") fields.fail("timestamp_granularities", "segment and word");
    (one == "word" ? request.words : request.segments) = true;
  }
  if (!given.shown.empty() && given.form != "verbose_json")
    fields.fail("timestamp_granularities", "none, unless response_format is verbose_json");
  request.segments = request.segments || given.shown.empty();
  if (given.stream && given.form != "json" && given.form != "text")
    fields.fail("response_format", "json or text with stream");
  request.form = std::move(given.form);
  request.stream = given.stream;
  TranscribeOptions& options = request.options;
  options.word_times = request.words;
  options.prompt = std::move(given.prompt);
  if (given.temperature > 0) options.temperatures = {given.temperature};  // 0: as the thresholds say
  if (translate) options.translate = true;
  const SpeechSettings* settings = transcriber.settings();
  if (translate && (settings == nullptr || !settings->is_multilingual()))
    throw ApiError(ErrorCode::not_supported,
                   std::string("request: model: expected a multilingual Whisper, which translates, got ") +
                       (settings == nullptr ? "a model that only transcribes" : "an English-only Whisper"),
                   "model");
  options.language = given.language;
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

HttpResponse speech_answer(const SpeechRequest& request, const Transcript& transcript) {
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

void refuse_long(double seconds) {
  if (seconds > kMostSeconds)
    throw ApiError(ErrorCode::too_large,
                   "request: file: expected a recording of at most 4 hours, got " +
                       std::to_string(seconds / 3600) + " (cut it)",
                   "file");
}

// The call gives its turn back after each window.
std::shared_ptr<server::PausedCall> started_speech(const std::shared_ptr<Call>& call,
                                                   const ServedModel& model, SpeechRequest request) {
  return std::make_shared<server::PausedCall>(
      [call, &model, request = std::move(request)](const server::PausedCall::Pause& pause) {
        TranscribeOptions options = request.options;
        options.stop = &call->stop();
        options.on_progress = [&](double, double seconds) {
          refuse_long(seconds);
          pause();
        };
        SoundReader sound(request.sound, "file", {.rate = model.opened.transcriber().rate()});
        const SoundInfo& info = sound.info();
        if (info.frames && info.rate > 0)  // as the header says
          refuse_long(static_cast<double>(*info.frames) / static_cast<double>(info.rate));
        if (!request.stream)
          return call->answer(speech_answer(request, model.opened.transcriber()(std::move(sound), options)));
        SpeechEvents events(*call, model.opened.transcriber().settings() != nullptr);
        options.on_segment = [&](const TranscriptSegment& segment) { events.segment(segment.text); };
        events.finish(model.opened.transcriber()(std::move(sound), options));
      });
}

void answer_speech(const RequestContext& context, SpeechFields& given, bool translate) {
  const std::string_view sound = sound_of(*context.call);
  SpeechRequest speech = speech_request(context, given, translate);
  speech.sound = sound;
  auto job = std::make_shared<PassJob>();
  job->call = context.call;
  job->model = &context.model;
  job->pass = [call = context.call,
               running = started_speech(context.call, context.model, std::move(speech))] {
    try {
      return running->resume();
    } catch (const Canceled&) {
      return true;  // the next turn tells why
    } catch (const ApiError& error) {
      call->fail(error);
      return false;
    } catch (const Error& error) {  // of a file that is no recording, for example
      call->fail(ApiError(ErrorCode::invalid, error.what(), "file"));
      return false;
    }
  };
  context.scheduler.add(std::move(job));
}

void transcribe_sound(const RequestContext& context, SpeechFields given) {
  answer_speech(context, given, false);
}
void translate_sound(const RequestContext& context, SpeechFields given) {
  answer_speech(context, given, true);
}

// As speech_answer() and SpeechEvents write them.
std::vector<server::AnswerForm> speech_forms() {
  const std::string usage = R"("usage": {"type": "=duration", "seconds": "number"})";
  return {{R"({"text": "string", )" + usage + "}"},
          {R"({"task": "=transcribe|translate", "language": "string", "duration": "number", "text": "string",
               "segments?": [{"id": "integer", "seek": "integer", "start": "number", "end": "number",
                              "text": "string", "tokens": ["integer"], "temperature": "number",
                              "avg_logprob": "number", "compression_ratio": "number",
                              "no_speech_prob": "number"}],
               "words?": [{"word": "string", "start": "number", "end": "number"}], )" +
           usage + "}"},
          {.type = "application/x-subrip"},
          {.type = "text/vtt"},
          {.type = "text/plain"},
          {R"({"|": [{"type": "=transcript.text.delta", "delta": "string"},
                     {"type": "=transcript.text.done", "text": "string", )" +
               usage + "}]}",
           server::kEventsType}};
}

}  // namespace

Routes speech_routes(Serving* serving) {
  const auto route = [serving](std::vector<const char*> paths, const char* summary, auto answer) {
    Route form{"POST", std::move(paths), ErrorForm::openai, "Speech", summary, speech_forms()};
    form.is_form = true;
    return to_model(serving, std::move(form), {"transcription", "transcribes speech"}, answer);
  };
  return {route({"/v1/audio/transcriptions", "/audio/transcriptions"}, "The text of a recording",
                transcribe_sound),
          route({"/v1/audio/translations", "/audio/translations"},
                "The English text of a recording in another language", translate_sound)};
}

}  // namespace heed::serve
