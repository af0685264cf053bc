// Attention as data for other programs: JSON and NumPy.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>

#include "core/json.h"
#include "heed/error.h"
#include "heed/io/npy.h"
#include "heed/plot/picture.h"
#include "plot/labels.h"

namespace heed {
namespace {

/// Written directly: float32 values need few digits, and no tree of millions of numbers is built.
void append_weights(std::string& out, const AttentionMap& map) {
  for (std::int64_t query = 0; query < map.queries; ++query) {
    out += query == 0 ? "[" : ",\n[";
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const float weight = map.weights[static_cast<std::size_t>(query * map.keys + key)];
      if (key > 0) out += ",";
      if (std::isfinite(weight)) {
        fmt::format_to(std::back_inserter(out), "{}", weight);
      } else {
        out += "null";
      }
    }
    out += "]";
  }
}

// Which part of the input the tokens are.
std::string range_of(const AttentionTokens& tokens) {
  const auto &queries = tokens.query_range, &keys = tokens.key_range;
  if (queries[1] == 0 && keys[1] == 0) return "";
  return fmt::format(",\n\"range\": {{\"queries\": [{}, {}], \"keys\": [{}, {}]}}", queries[0], queries[1],
                     keys[0], keys[1]);
}

void append_ablation(std::string& out, const AttentionPicture& picture) {
  const char* separator = "";
  for (const HeadFacts& facts : picture.facts) {
    if (facts.ablation.empty()) continue;
    if (*separator == '\0') out += ",\n\"scored\": " + json_text(Json(picture.scored)) + ",\n\"ablation\": [";
    out += fmt::format("{}{{\"kind\": {}, \"layer\": {}, \"head\": {}, \"change\": {}}}", separator,
                       json_quoted(facts.kind), facts.layer, facts.head, json_text(Json(facts.ablation)));
    separator = ",\n";
  }
  if (*separator != '\0') out += "]";
}

void append_sound(std::string& out, const RecordedSound& sound) {
  if (sound.seconds <= 0) return;
  out +=
      fmt::format(",\n\"sound\": {{\"start\": {}, \"seconds\": {}, \"words\": [", sound.start, sound.seconds);
  const char* separator = "";
  for (const SpokenWord& word : sound.words) {
    const auto seconds = [&](double at) { return word.timed ? fmt::format("{}", at) : "null"; };
    out += fmt::format("{}{{\"text\": {}, \"start\": {}, \"end\": {}, \"queries\": [{}, {}]}}", separator,
                       json_quoted(word.text), seconds(word.start), seconds(word.end), word.queries[0],
                       word.queries[1]);
    separator = ",\n";
  }
  out += "]}";
}

void append_float(std::string& out, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift & 0xFF);
}

}  // namespace

std::string attention_json(const AttentionPicture& picture) {
  plot::check_picture(picture);
  std::string out = "{\"title\": " + json_quoted(picture.title) + ",\n\"tokens\": {";
  const char* separator = "";
  for (const auto& entry : picture.tokens) {
    out += separator + json_quoted(entry.first) + ": {\"queries\": " + json_text(Json(entry.second.queries)) +
           ",\n\"keys\": " + json_text(Json(entry.second.keys)) + range_of(entry.second) + "}";
    separator = ",\n";
  }
  out += "},\n\"maps\": [";
  separator = "";
  for (const AttentionMap& map : picture.maps) {
    const bool aligns = map.head == AttentionMap::kAlignmentHeads;
    const std::string head = map.head == AttentionMap::kMeanOfHeads  ? "null"
                             : map.head == AttentionMap::kMaxOfHeads ? "\"max\""
                             : aligns                                ? "\"alignment\""
                                                                     : std::to_string(map.head);
    out += fmt::format(
        "{}{{\"name\": {}, \"kind\": {}, \"layer\": {}, \"head\": {}, \"queries\": {}, \"keys\": {}, "
        "\"measure\": {},\n\"weights\": [",
        separator, json_quoted(map.name), json_quoted(map.kind), aligns ? "null" : std::to_string(map.layer),
        head, map.queries, map.keys, json_quoted(map.measure));
    append_weights(out, map);
    out += "]}";
    separator = ",\n";
  }
  out += "]";
  append_ablation(out, picture);
  append_sound(out, picture.sound);
  return out + "}\n";
}

std::string attention_npy(const AttentionPicture& picture) {
  plot::check_picture(picture);
  const AttentionMap& first = picture.maps.front();
  for (const AttentionMap& map : picture.maps) {
    if (map.queries == first.queries && map.keys == first.keys) continue;
    throw Error(
        fmt::format("attention picture: expected maps of one size for NPY, got {} x {} ({}) and {} x {} ({}) "
                    "(choose one kind)",
                    first.queries, first.keys, first.name, map.queries, map.keys, map.name));
  }
  std::string out =
      npy_header("<f4", fmt::format("({}, {}, {})", picture.maps.size(), first.queries, first.keys));
  for (const AttentionMap& map : picture.maps) {
    for (const float weight : map.weights) append_float(out, weight);
  }
  return out;
}

}  // namespace heed
