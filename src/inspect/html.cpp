// The HTML page: fixed parts (page/), packs of numbers in elements of their own, and what describes them, a
// JSON value inside a script element. The page decodes a map when it is shown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "heed/error.h"
#include "heed/inspect/picture.h"
#include "inspect/colour.h"
#include "inspect/labels.h"
#include "inspect/number_packs.h"
#include "inspect/page.h"
#include "inspect/pattern_scores.h"

namespace heed {
namespace {

using nlohmann::json;

/// Bytes of base64 up to which 16 bits are used, and for all numbers of a page.
constexpr std::size_t kFinePage = 7'000'000, kLargestPage = 42'000'000, kMostNumbers = 60'000'000;

std::string palette(double sign) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    const inspect::Rgb colour = inspect::shade(sign * i / 255.0, Palette::blue);
    for (const std::uint8_t part : {colour.r, colour.g, colour.b}) bytes += static_cast<char>(part);
  }
  return inspect::base64(bytes);
}

json visible_tokens(const std::vector<std::string>& tokens) {
  json list = json::array();
  for (const std::string& token : tokens) list.push_back(inspect::visible(token));
  return list;
}

double rounded(double value) { return std::isfinite(value) ? std::stod(fmt::format("{:.4g}", value)) : 0; }

json rounded(const std::vector<float>& values) {
  json list = json::array();
  for (const float value : values) list.push_back(rounded(static_cast<double>(value)));
  return list;
}

/// Packs of a page, and the elements that hold them.
class Packs {
 public:
  json add(std::span<const float> numbers, int bits) {
    inspect::PackedNumbers packed = inspect::pack_numbers(numbers, bits);
    size_ += packed.text.size();
    texts_.push_back(std::move(packed.text));
    json block{{"pack", texts_.size() - 1}, {"largest", packed.largest}};
    if (packed.has_signs) block["signed"] = true;
    return block;
  }
  std::size_t size() const { return size_; }
  std::string elements() const {
    std::string out;
    out.reserve(size_ + 64 * texts_.size());
    for (std::size_t i = 0; i < texts_.size(); ++i)
      out += fmt::format("<script type=\"text/plain\" id=\"pack-{}\">{}</script>\n", i, texts_[i]);
    return out;
  }

 private:
  std::vector<std::string> texts_;
  std::size_t size_ = 0;
};

const HeadFacts* facts_of(const AttentionPicture& picture, const AttentionMap& map) {
  for (const HeadFacts& facts : picture.facts) {
    if (facts.kind == map.kind && facts.layer == map.layer && facts.head == map.head) return &facts;
  }
  return nullptr;
}

/// The largest value-weighted norm of a head.
float largest_norm(const AttentionMap& map, const std::vector<float>& norms) {
  float largest = 0;
  for (std::size_t i = 0; i < map.weights.size(); ++i)
    largest = std::max(largest, map.weights[i] * norms[i % norms.size()]);
  return largest;
}

json map_data(const AttentionPicture& picture, const AttentionMap& map, Packs& packs, int bits) {
  json data = packs.add(map.weights, bits);
  data["name"] = inspect::visible(map.name);
  data["layer"] = map.layer;
  data["measure"] = map.measure;
  data["head"] = map.head == AttentionMap::kMeanOfHeads  ? json("mean")
                 : map.head == AttentionMap::kMaxOfHeads ? json("max")
                                                         : json(map.head);
  if (map.measure == "weights") {
    for (const auto& [pattern, score] : inspect::pattern_scores(map, inspect::tokens_of(picture, map)))
      data["scores"][pattern] = rounded(score);
  }
  const HeadFacts* facts = facts_of(picture, map);
  if (facts == nullptr || map.measure != "weights") return data;
  if (!facts->value_norms.empty()) {
    data["norms"] = rounded(facts->value_norms);
    data["largest_norm"] = largest_norm(map, facts->value_norms);
  }
  if (!facts->ablation.empty()) data["ablation"] = rounded(facts->ablation);
  return data;
}

json kind_data(const AttentionPicture& picture, const AttentionMap& first) {
  const AttentionTokens& tokens = inspect::tokens_of(picture, first);
  json kind{{"kind", first.kind},
            {"title", inspect::kind_title(first.kind)},
            {"queries", visible_tokens(tokens.queries)},
            {"keys", visible_tokens(tokens.keys)},
            {"maps", json::array()}};
  const auto candidates = picture.candidates.find(first.kind);
  if (candidates == picture.candidates.end()) return kind;
  for (const std::vector<Candidate>& step : candidates->second) {
    json list = json::array();
    for (const Candidate& one : step)
      list.push_back({inspect::visible(one.token), rounded(static_cast<double>(one.probability))});
    kind["candidates"].push_back(std::move(list));
  }
  return kind;
}

void add_vectors(const AttentionPicture& picture, json& kind, Packs& packs) {
  for (const LayerVectors& layer : picture.vectors) {
    if (layer.kind != kind["kind"]) continue;
    kind["vectors"].push_back({{"layer", layer.layer},
                               {"heads", layer.heads},
                               {"kv_heads", layer.kv_heads},
                               {"dims", layer.dims},
                               {"q", packs.add(layer.q, 8)},
                               {"k", packs.add(layer.k, 8)}});
  }
}

json kinds_data(const AttentionPicture& picture, Packs& packs, int bits) {
  json kinds = json::array();
  for (const AttentionMap& map : picture.maps) {
    auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const json& k) { return k["kind"] == map.kind; });
    if (kind == kinds.end()) {
      kinds.push_back(kind_data(picture, map));
      kind = kinds.end() - 1;
      add_vectors(picture, *kind, packs);
    }
    (*kind)["maps"].push_back(map_data(picture, map, packs, bits));
  }
  return kinds;
}

/// The data of the page with as many bits as fit; fills `packs`.
json page_data(const AttentionPicture& picture, Packs& packs) {
  std::size_t numbers = 0;
  for (const AttentionMap& map : picture.maps) numbers += map.weights.size();
  for (const int bits : {16, 8, 7, 6}) {
    const std::size_t limit = bits > 8 ? kFinePage : kLargestPage;
    if (numbers > kMostNumbers || numbers * (bits > 8 ? 1 : 0) > 2 * kFinePage) continue;
    packs = Packs();
    json kinds = kinds_data(picture, packs, bits);
    if (packs.size() > limit) continue;
    json data{{"title", picture.title.empty() ? "Attention" : inspect::visible(picture.title)},
              {"bits", bits},
              {"palette", palette(1)},
              {"negative", palette(-1)},
              {"kinds", std::move(kinds)}};
    if (!picture.scored.empty()) data["scored"] = visible_tokens(picture.scored);
    if (!picture.image.png.empty()) {
      data["image"] = {{"png", inspect::base64(picture.image.png)},
                       {"rows", picture.image.rows},
                       {"columns", picture.image.columns},
                       {"first", picture.image.first}};
    }
    return data;
  }
  throw Error(
      fmt::format("attention picture: expected numbers that fit in a page of 45 MB, got {} (choose fewer "
                  "layers or heads, or a shorter text)",
                  numbers));
}

/// Returns JSON in which no character can end the script element or the string.
std::string script_safe(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

void fill(std::string& page, std::string_view mark, const std::string& text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string attention_html(const AttentionPicture& picture) {
  inspect::check_picture(picture);
  Packs packs;
  const json data = page_data(picture, packs);
  std::string page(inspect::kPageHtml);
  // From the end to the beginning, so that no mark in what was filled in is found before the page's own.
  fill(page, "@JS@", std::string(inspect::kPageScript));
  fill(page, "@DATA@", script_safe(data));
  fill(page, "@PACKS@", packs.elements());
  fill(page, "@CSS@", std::string(inspect::kPageCss));
  fill(page, "@TITLE@", inspect::escape_markup(data["title"].get<std::string>()));
  return page;
}

}  // namespace heed
