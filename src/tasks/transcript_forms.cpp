// Transcripts as text, subtitles, tables and JSON, as OpenAI's whisper writes them.
#include <cmath>
#include <cstdio>

#include "core/strings.h"
#include "heed/io/json.h"
#include "heed/tasks/transcribe.h"

namespace heed {
namespace {

// The text without the space around it, tabs and line ends.
std::string line_of(const std::string& text) {
  std::string line(trimmed(text));
  for (char& c : line) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

// An arrow stands between the times of a subtitle.
std::string subtitle_of(const std::string& text) {
  std::string line = line_of(text);
  for (std::size_t at = line.find("-->"); at != line.npos; at = line.find("-->", at)) line.erase(at, 1);
  return line;
}

// 01:02:03,456
std::string clock(double seconds, bool hours_always, char point) {
  const auto all = static_cast<long long>(std::nearbyint(seconds * 1000));
  const long long hours = all / 3'600'000, minutes = all / 60'000 % 60, rest = all % 60'000;
  char text[64];
  const int used = hours_always || hours > 0 ? std::snprintf(text, sizeof text, "%02lld:", hours) : 0;
  std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "%02lld:%02lld%c%03lld", minutes,
                rest / 1000, point, rest % 1000);
  return text;
}

std::string times(const TranscriptSegment& segment, bool hours_always, char point) {
  return clock(segment.start, hours_always, point) + " --> " + clock(segment.end, hours_always, point);
}

std::string milliseconds(double seconds) {
  return std::to_string(static_cast<long long>(std::nearbyint(seconds * 1000)));
}

void write_segment(JsonWriter& json, const TranscriptSegment& segment, std::size_t id, bool words) {
  json.begin_object()
      .field("id", id)
      .field("start", segment.start)
      .field("end", segment.end)
      .field("text", segment.text)
      .field("tokens", segment.tokens);
  if (segment.temperature) json.field("temperature", *segment.temperature);
  json.field("avg_logprob", segment.average_log_probability);
  if (segment.compression_ratio) json.field("compression_ratio", *segment.compression_ratio);
  if (segment.no_speech_probability) json.field("no_speech_prob", *segment.no_speech_probability);
  if (words) {
    json.key("words").begin_array();
    for (const TranscribedWord& word : segment.words) {
      json.begin_object()
          .field("word", word.text)
          .field("start", word.start)
          .field("end", word.end)
          .field("probability", word.probability)
          .end_object();
    }
    json.end_array();
  }
  json.end_object();
}

std::string json_of(const Transcript& transcript, const std::string& name) {
  bool words = false;
  for (const TranscriptSegment& segment : transcript.segments) words = words || !segment.words.empty();
  JsonWriter json;
  json.begin_object();
  if (!name.empty()) json.field("file", name);
  if (!transcript.language.empty()) json.field("language", transcript.language);
  json.field("duration", transcript.seconds).field("text", transcript.text).key("segments").begin_array();
  for (std::size_t i = 0; i < transcript.segments.size(); ++i)
    write_segment(json, transcript.segments[i], i, words);
  return json.end_array().end_object().text() + "\n";
}

}  // namespace

std::string transcript_head(TranscriptForm form) {
  if (form == TranscriptForm::vtt) return "WEBVTT\n\n";
  return form == TranscriptForm::tsv ? "start\tend\ttext\n" : "";
}

std::string transcript_part(const TranscriptSegment& segment, std::int64_t number, TranscriptForm form) {
  switch (form) {
    case TranscriptForm::srt:
      return std::to_string(number) + "\n" + times(segment, true, ',') + "\n" + subtitle_of(segment.text) +
             "\n\n";
    case TranscriptForm::vtt: return times(segment, false, '.') + "\n" + subtitle_of(segment.text) + "\n\n";
    case TranscriptForm::tsv:
      return milliseconds(segment.start) + "\t" + milliseconds(segment.end) + "\t" + line_of(segment.text) +
             "\n";
    case TranscriptForm::text:
    case TranscriptForm::json: break;
  }
  return line_of(segment.text) + "\n";
}

std::string written(const Transcript& transcript, TranscriptForm form, const std::string& name) {
  if (form == TranscriptForm::json) return json_of(transcript, name);
  std::string text = transcript_head(form);
  std::int64_t number = 0;
  for (const TranscriptSegment& segment : transcript.segments)
    text += transcript_part(segment, ++number, form);
  return text;
}

}  // namespace heed
