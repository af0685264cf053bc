// Labels of tokens and maps, and the checks that all renderers share.
#include "plot/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::plot {
namespace {

/// Splits valid UTF-8 into code points.
std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> points;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    if (i < text.size() && !is_utf8_start(text[i])) continue;
    points.push_back(text.substr(begin, i - begin));
    begin = i;
  }
  return points;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_hex(text += "\\x", static_cast<std::uint8_t>(byte));
  return text;
}

/// Returns a visible form of a code point, or an empty string if it only controls the writing direction.
std::string visible_point(std::string_view point) {
  const unsigned char first = static_cast<unsigned char>(point[0]);
  if (point == "\n" || point == "\u2028" || point == "\u2029") return "↵";  // more fonts have it than U+240A
  if (point.size() == 1 && first < 0x20)
    return {'\xE2', '\x90', static_cast<char>(0x80 + first)};  // U+2400 + first
  if (first == 0x7F) return "\u2421";
  if (point.size() == 2 && first == 0xC2 && static_cast<unsigned char>(point[1]) < 0xA0)
    return hexadecimal(point);
  for (const char* steering : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202B", "\u202C", "\u202D", "\u202E",
                               "\u2066", "\u2067", "\u2068", "\u2069"}) {
    if (point == steering) return "";
  }
  if (point == "\u2581") return "·";  // SentencePiece's space
  return std::string(point);
}

std::string spaces(int count) { return std::string(static_cast<std::size_t>(std::max(0, count)), ' '); }

}  // namespace

std::string escape_bytes(std::string_view text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const auto [bytes, valid] = first_utf8_sequence(rest);
    out += valid ? std::string(rest.substr(0, bytes)) : hexadecimal(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  return out;
}

std::string visible(std::string_view token) {
  if (token.empty()) return "∅";
  const std::string valid = escape_bytes(token);
  std::string out;
  for (const std::string_view point : code_points(valid)) out += visible_point(point);
  if (!is_blank(out)) return out;
  std::string blanks;
  for (std::int64_t i = 0; i < count_characters(valid); ++i) blanks += "␣";
  return blanks;
}

std::string shorten(const std::string& label, int width) {
  if (display_width(label) <= width) return label;
  std::string out;
  int used = 0;
  for (const std::string& cluster : clusters(label)) {
    used += display_width(cluster);
    if (used > width - 1) break;
    out += cluster;
  }
  return out + "…";
}

std::string cell_label(const std::string& text) {
  constexpr int kLongestCell = 16;
  return text.empty() ? text : shorten(visible(text), kLongestCell);
}

std::vector<std::string> wrap(const std::string& label, int width, std::size_t lines) {
  std::vector<std::string> result{""};
  for (std::size_t begin = 0; begin <= label.size();) {
    const std::size_t end = std::min(label.find(' ', begin), label.size());
    const std::string word = label.substr(begin, end - begin);
    const bool fits = display_width(result.back()) + 1 + display_width(word) <= width;
    if (begin == 0 || fits || result.size() == lines) {
      result.back() += (begin == 0 ? "" : " ") + word;
    } else {
      result.push_back(word);
    }
    begin = end + 1;
  }
  for (std::string& line : result) line = shorten(line, width);
  return result;
}

std::vector<std::string> clusters(const std::string& label) {
  std::vector<std::string> result;
  for (const std::string_view point : code_points(label)) {
    if (!result.empty() && display_width(point) == 0) {
      result.back() += point;
    } else {
      result.emplace_back(point);
    }
  }
  return result;
}

std::string pad_left(const std::string& label, int width) {
  return spaces(width - display_width(label)) + label;
}

std::string pad_right(const std::string& label, int width) {
  return label + spaces(width - display_width(label));
}

std::string escape_markup(std::string_view text) {
  const std::string valid = escape_bytes(text);
  std::string out;
  for (const std::string_view point : code_points(valid)) {
    if (point == "&") {
      out += "&amp;";
    } else if (point == "<") {
      out += "&lt;";
    } else if (point == ">") {
      out += "&gt;";
    } else if (point == "\"") {
      out += "&quot;";
    } else if (point == "'") {
      out += "&#39;";
    } else if (point == "\uFFFE" || point == "\uFFFF") {
      out += "\uFFFD";  // XML allows neither of these two
    } else {
      out += visible_point(point);
    }
  }
  return out;
}

std::string kind_title(const std::string& kind) {
  if (kind == "cross") return "cross-attention";
  if (kind == "self") return "self-attention";
  if (kind == "encoder" || kind == "decoder" || kind == "image" || kind == "text")
    return kind + " self-attention";
  if (kind == "pooling") return "attention pooling";
  return visible(kind);
}

std::string head_title(const AttentionMap& map) {
  if (!map.word.empty()) {
    AttentionMap head = map;
    head.word = {};
    return visible(map.word) + ", " + head_title(head);
  }
  if (map.kind.starts_with("pooling")) {
    return map.head == AttentionMap::kMeanOfHeads  ? "pooling, mean of heads"
           : map.head == AttentionMap::kMaxOfHeads ? "pooling, largest of heads"
                                                   : fmt::format("pooling, head {}", map.head);
  }
  if (map.measure == "rollout") return fmt::format("rollout to layer {}", map.layer);
  if (map.head == AttentionMap::kAlignmentHeads) return "mean of the alignment heads";
  if (map.head == AttentionMap::kMeanOfHeads) return fmt::format("layer {}, mean of heads", map.layer);
  if (map.head == AttentionMap::kMaxOfHeads) return fmt::format("layer {}, largest of heads", map.layer);
  return fmt::format("layer {}, head {}", map.layer, map.head);
}

std::string short_title(const AttentionMap& map) {
  if (!map.word.empty()) {
    AttentionMap head = map;
    head.word = {};
    return visible(map.word) + " " + short_title(head);
  }
  if (map.measure == "rollout") return fmt::format("to {}", map.layer);
  if (map.head == AttentionMap::kAlignmentHeads) return "alignment";
  if (map.head == AttentionMap::kMeanOfHeads) return fmt::format("{} mean", map.layer);
  if (map.head == AttentionMap::kMaxOfHeads) return fmt::format("{} max", map.layer);
  return fmt::format("{}.{}", map.layer, map.head);
}

std::string measure_title(const std::string& measure) {
  if (measure == "norms") return "value-weighted norms";
  if (measure == "gradient") return "gradient × attention";
  return measure;
}

void check_picture(const AttentionPicture& picture) {
  if (picture.maps.empty()) {
    throw Error("attention picture: no maps (choose other layers, heads or kinds)");
  }
  for (const AttentionMap& map : picture.maps) {
    const auto tokens = picture.tokens.find(map.kind);
    if (tokens == picture.tokens.end()) {
      throw Error(fmt::format("attention picture: no tokens given for kind `{}` of {}", map.kind, map.name));
    }
    const std::size_t queries = tokens->second.queries.size(), keys = tokens->second.keys.size();
    if (map.queries < 1 || map.keys < 1 || static_cast<std::size_t>(map.queries) != queries ||
        static_cast<std::size_t>(map.keys) != keys) {
      throw Error(
          fmt::format("attention picture: expected {} to be {} x {} as its tokens and not empty, got {} x {}",
                      map.name, queries, keys, map.queries, map.keys));
    }
    if (map.weights.size() != queries * keys) {
      throw Error(fmt::format("attention picture: expected {} weights in {}, got {}", queries * keys,
                              map.name, map.weights.size()));
    }
  }
}

const AttentionTokens& tokens_of(const AttentionPicture& picture, const AttentionMap& map) {
  return picture.tokens.find(map.kind)->second;
}

std::vector<MeasureScale> measure_scales(const AttentionPicture& picture) {
  std::vector<MeasureScale> scales;
  for (const AttentionMap& map : picture.maps) {
    auto scale = std::find_if(scales.begin(), scales.end(),
                              [&](const MeasureScale& one) { return one.measure == map.measure; });
    if (scale == scales.end()) scale = scales.insert(scales.end(), MeasureScale{map.measure});
    for (const float weight : map.weights) {
      if (!std::isfinite(weight)) continue;
      scale->largest = std::max(scale->largest, std::abs(weight));
      scale->negative = scale->negative || weight < 0;
    }
  }
  for (MeasureScale& scale : scales) scale.largest = scale.largest > 0 ? scale.largest : 1.0f;
  return scales;
}

float largest_of(const std::vector<MeasureScale>& scales, const std::string& measure) {
  return std::find_if(scales.begin(), scales.end(),
                      [&](const MeasureScale& one) { return one.measure == measure; })
      ->largest;
}

}  // namespace heed::plot
