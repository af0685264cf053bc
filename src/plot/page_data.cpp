// From a picture to the JSON value and the blocks of numbers of its page.
#include "plot/page_data.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base64.h"
#include "heed/error.h"
#include "plot/color.h"
#include "plot/labels.h"

namespace heed::plot {
namespace {

double weight_at(const AttentionMap& map, std::int64_t query, std::int64_t key) {
  return static_cast<double>(map.weights[static_cast<std::size_t>(query * map.keys + key)]);
}

/// The mean over the queries that have such keys of the sum of their weights: key follows(query, key).
template <typename Follows>
double mean_weight(const AttentionMap& map, const Follows& follows) {
  double total = 0;
  std::int64_t queries = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    bool can = false;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      if (!follows(query, key)) continue;
      can = true;
      total += weight_at(map, query, key);
    }
    queries += can ? 1 : 0;
  }
  return queries > 0 ? total / static_cast<double>(queries) : 0;
}

/// The same of the one key_of(query), where there is such a key.
template <typename KeyOf>
double mean_weight_of_key(const AttentionMap& map, const KeyOf& key_of) {
  double total = 0;
  std::int64_t queries = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    const std::int64_t key = key_of(query);
    if (key < 0 || key >= map.keys) continue;
    total += weight_at(map, query, key);
    ++queries;
  }
  return queries > 0 ? total / static_cast<double>(queries) : 0;
}

/// A number for each token, the same for equal ones: a comparison of texts for each cell of each map takes
/// long.
std::vector<std::size_t> numbers_of(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string, std::size_t> known;
  std::vector<std::size_t> numbers;
  for (const std::string& token : tokens) numbers.push_back(known.emplace(token, known.size()).first->second);
  return numbers;
}

/// Letters and digits of a token: characters beyond ASCII count, but not the signs for a space.
std::size_t letters_of(std::string_view token) {
  std::size_t letters = 0;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const auto byte = static_cast<unsigned char>(token[i]);
    bool is_space = false;
    for (const std::string_view space : {"·", "▁", "Ġ", "Ċ", "…"}) {
      if (!token.substr(i).starts_with(space)) continue;
      is_space = true;
      i += space.size() - 1;
      break;
    }
    if (!is_space && (std::isalnum(byte) != 0 || byte >= 0xC0)) ++letters;
  }
  return letters;
}

/// Which tokens are words with some content: not those in brackets, such as [CLS] and </s>, nor shorter ones
/// than three letters, unless all are.
std::vector<bool> content_of(const std::vector<std::string>& tokens) {
  std::vector<std::size_t> letters;
  for (const std::string& token : tokens) {
    const bool special = token.size() > 2 && ((token.front() == '<' && token.back() == '>') ||
                                              (token.front() == '[' && token.back() == ']'));
    letters.push_back(special ? 0 : letters_of(token));
  }
  const bool words = std::any_of(letters.begin(), letters.end(), [](std::size_t n) { return n >= 3; });
  std::vector<bool> content;
  for (const std::size_t count : letters) content.push_back(count >= (words ? 3u : 1u));
  return content;
}

/// By distance, query less key, from 1 - keys on: the mean weight there, and 0 for fewer than three cells.
std::vector<double> mean_by_distance(const AttentionMap& map) {
  std::vector<double> mean(static_cast<std::size_t>(map.queries + map.keys - 1));
  for (std::int64_t query = 0; query < map.queries; ++query) {
    for (std::int64_t key = 0; key < map.keys; ++key)
      mean[static_cast<std::size_t>(query - key + map.keys - 1)] += weight_at(map, query, key);
  }
  for (std::int64_t distance = 1 - map.keys; distance < map.queries; ++distance) {
    const std::int64_t cells = std::min({map.queries, map.keys, map.queries - distance, map.keys + distance});
    double& one = mean[static_cast<std::size_t>(distance + map.keys - 1)];
    one = cells < 3 ? 0 : one / static_cast<double>(cells);
  }
  return mean;
}

/// The mean over the queries of the largest weight on a word that is neither the first token nor the query's
/// own or a neighbor of it, less what the head gives keys at that distance in the mean: many heads look there
/// in every text.
double content_weight(const AttentionMap& map, const std::vector<bool>& content, bool self) {
  const std::vector<double> usual = self ? mean_by_distance(map) : std::vector<double>();
  double total = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    double largest = 0;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const bool near = self && (key == 0 || std::abs(query - key) <= 1);
      if (!content[static_cast<std::size_t>(key)] || near) continue;
      const double less = self ? usual[static_cast<std::size_t>(query - key + map.keys - 1)] : 0;
      largest = std::max(largest, weight_at(map, query, key) - less);
    }
    total += largest;
  }
  return total / static_cast<double>(map.queries);
}

double focus(const AttentionMap& map, bool self) {
  double total = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    float largest = 0;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const bool plain = map.keys > 2 && (key == 0 || key == map.keys - 1 || (self && key == query));
      if (!plain) largest = std::max(largest, map.weights[static_cast<std::size_t>(query * map.keys + key)]);
    }
    total += static_cast<double>(largest);
  }
  return total / static_cast<double>(map.queries);
}

}  // namespace

std::vector<std::pair<std::string, double>> pattern_scores(const AttentionMap& map,
                                                           const AttentionTokens& tokens) {
  const bool self = map.kind != "cross" && map.queries == map.keys && tokens.query_range == tokens.key_range;
  std::vector<std::pair<std::string, double>> scores;
  if (self) {
    const std::vector<std::size_t> numbers = numbers_of(tokens.keys);
    const auto same = [&](std::int64_t a, std::int64_t b) {
      return numbers[static_cast<std::size_t>(a)] == numbers[static_cast<std::size_t>(b)];
    };
    scores.emplace_back("previous", mean_weight_of_key(map, [](auto q) { return q - 1; }));
    scores.emplace_back("next", mean_weight_of_key(map, [](auto q) { return q + 1; }));
    scores.emplace_back("same", mean_weight_of_key(map, [](auto q) { return q; }));
    scores.emplace_back("repeat", mean_weight(map, [&](auto q, auto k) { return k != q && same(q, k); }));
    scores.emplace_back("induction", mean_weight(map, [&](auto q, auto k) {
                          return k > 0 && k - 1 < q && same(q, k - 1) && k != q;
                        }));
  }
  if (tokens.key_range[0] == 0) scores.emplace_back("first", mean_weight_of_key(map, [](auto) { return 0; }));
  scores.emplace_back("focus", focus(map, self));
  scores.emplace_back("content", content_weight(map, content_of(tokens.keys), self));
  return scores;
}

namespace {

using nlohmann::json;

std::string palette(double sign) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    const Rgb color = shade(sign * i / 255.0, Palette::blue);
    for (const std::uint8_t part : {color.r, color.g, color.b}) bytes += static_cast<char>(part);
  }
  return encode_base64(bytes);
}

json visible_tokens(const std::vector<std::string>& tokens) {
  json list = json::array();
  for (const std::string& token : tokens) list.push_back(visible(token));
  return list;
}

double rounded(double value) { return std::isfinite(value) ? std::stod(fmt::format("{:.4g}", value)) : 0; }

json rounded(const std::vector<float>& values) {
  json list = json::array();
  for (const float value : values) list.push_back(rounded(static_cast<double>(value)));
  return list;
}

/// The list of packs while it grows.
struct Packs {
  std::vector<PagePack> list = {};

  json add(std::span<const float> numbers, int bits) {
    list.push_back({numbers, bits});
    const NumberRange range = range_of(numbers);
    json block{{"pack", list.size() - 1}, {"largest", range.largest}};
    if (range.has_signs) block["signed"] = true;
    return block;
  }
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

/// Of a map of the parts of an image, what the page shows of it first has this largest weight, and this
/// largest weight times `norms`: the attention of the first token before the parts, or the mean over all.
std::array<float, 2> largest_over_image(const InputImage& image, const AttentionMap& map,
                                        const std::vector<float>& norms) {
  std::array<float, 2> largest{};
  const bool mean = image.first == 0 && map.kind != "cross" && map.queries == map.keys;
  const std::int64_t queries = mean ? std::min(map.queries, image.rows * image.columns) : 1;
  for (std::int64_t key = image.first; key < image.first + image.rows * image.columns; ++key) {
    double sum = 0;
    for (std::int64_t query = 0; query < queries; ++query) sum += weight_at(map, query, key);
    const auto mean = static_cast<float>(sum / static_cast<double>(queries));
    const float norm = norms.empty() ? 0 : norms[static_cast<std::size_t>(key)];
    largest = {std::max(largest[0], mean), std::max(largest[1], mean * norm)};
  }
  return largest;
}

json map_data(const AttentionPicture& picture, const AttentionMap& map, Packs& packs, int bits) {
  json data = packs.add(map.weights, bits);
  data["name"] = visible(map.name);
  data["layer"] = map.layer;
  data["measure"] = map.measure;
  data["head"] = map.head == AttentionMap::kMeanOfHeads  ? json("mean")
                 : map.head == AttentionMap::kMaxOfHeads ? json("max")
                                                         : json(map.head);
  if (map.measure == "weights") {
    for (const auto& [pattern, score] : pattern_scores(map, tokens_of(picture, map)))
      data["scores"][pattern] = rounded(score);
  }
  const HeadFacts* facts = facts_of(picture, map);
  const InputImage& image = picture.image;
  if (image.width > 0 && map.keys >= image.first + image.rows * image.columns) {
    const auto [weight, norm] =
        largest_over_image(image, map, facts == nullptr ? std::vector<float>() : facts->value_norms);
    data["over"] = {rounded(static_cast<double>(weight)), rounded(static_cast<double>(norm))};
  }
  if (facts == nullptr || map.measure != "weights") return data;
  if (!facts->value_norms.empty()) {
    data["norms"] = rounded(facts->value_norms);
    data["largest_norm"] = largest_norm(map, facts->value_norms);
  }
  if (!facts->ablation.empty()) data["ablation"] = rounded(facts->ablation);
  return data;
}

/// Whether only some of a kind's heads are shown: their mean and largest are then of these.
bool shows_some_heads(const AttentionPicture& picture, const std::string& kind) {
  const auto shown = [&](std::int64_t layer, std::int64_t head) {
    return std::any_of(picture.maps.begin(), picture.maps.end(), [&](const AttentionMap& map) {
      return map.kind == kind && map.layer == layer && map.head == head;
    });
  };
  return std::any_of(picture.facts.begin(), picture.facts.end(), [&](const HeadFacts& facts) {
    return facts.kind == kind && !shown(facts.layer, facts.head);
  });
}

json kind_data(const AttentionPicture& picture, const AttentionMap& first) {
  const AttentionTokens& tokens = tokens_of(picture, first);
  json kind{{"kind", first.kind},
            {"title", kind_title(first.kind)},
            {"queries", visible_tokens(tokens.queries)},
            {"keys", visible_tokens(tokens.keys)},
            {"maps", json::array()}};
  if (first.head >= 0 && shows_some_heads(picture, first.kind)) kind["some_heads"] = true;
  if (first.kind == "encoder") {  // the query that a page opens on
    const auto own = picture.mask_position ? picture.mask_position : picture.model.answer_position;
    const std::int64_t at = own.value_or(-1) - tokens.query_range[0];
    if (own && at >= 0 && at < std::ssize(tokens.queries)) kind["own"] = at;
  }
  const auto candidates = picture.candidates.find(first.kind);
  if (candidates == picture.candidates.end()) return kind;
  for (const std::vector<Candidate>& step : candidates->second) {
    json list = json::array();
    for (const Candidate& one : step)
      list.push_back({visible(one.token), rounded(static_cast<double>(one.probability))});
    kind["candidates"].push_back(std::move(list));
  }
  return kind;
}

/// Of a query or key: the page shows their products and sums with two decimals and more.
constexpr int kVectorBits = 24;

void add_vectors(const AttentionPicture& picture, json& kind, Packs& packs) {
  for (const LayerVectors& layer : picture.vectors) {
    if (layer.kind != kind["kind"]) continue;
    kind["vectors"].push_back({{"layer", layer.layer},
                               {"heads", layer.heads},
                               {"kv_heads", layer.kv_heads},
                               {"dims", layer.dims},
                               {"q", packs.add(layer.q, kVectorBits)},
                               {"k", packs.add(layer.k, kVectorBits)}});
  }
}

/// A distance has to have so many cells without weight to be masked by itself: a few may be 0 by rounding.
constexpr std::int64_t kSurelyMasked = 4;

/// The distances, query less key, that a mask forbids, as no head of a layer gives weight to any cell there:
/// those with kSurelyMasked cells, those beyond a masked one, and in a decoder all later keys where all are
/// without weight. The own position, `own`, is never masked.
std::vector<std::int64_t> masked_distances(const std::vector<const AttentionMap*>& heads, std::int64_t own) {
  const std::int64_t queries = heads.front()->queries, keys = heads.front()->keys;
  std::vector<std::int64_t> cells(
      static_cast<std::size_t>(queries + keys - 1));  // of each distance without weight
  const auto at = [&](std::int64_t distance) { return static_cast<std::size_t>(distance + keys - 1); };
  const auto count_of = [&](std::int64_t distance) {
    return std::min({queries, keys, queries - distance, keys + distance});
  };
  for (std::int64_t query = 0; query < queries; ++query) {
    for (std::int64_t key = 0; key < keys; ++key) {
      const auto cell = static_cast<std::size_t>(query * keys + key);
      cells[at(query - key)] += std::all_of(heads.begin(), heads.end(),
                                            [&](const AttentionMap* map) { return map->weights[cell] == 0; });
    }
  }
  const auto empty = [&](std::int64_t distance) { return cells[at(distance)] == count_of(distance); };
  bool later = heads.front()->kind == "decoder";
  for (std::int64_t distance = own - 1; distance > -keys; --distance) later = later && empty(distance);
  // Where a query gives no weight even to its own position, which no mask forbids, zeros are rounded weights.
  const bool exact = own > -keys && own < queries && cells[at(own)] == 0;
  std::vector<std::int64_t> masked;
  for (const std::int64_t step : {-1, 1}) {
    bool before = later && step < 0;
    for (std::int64_t distance = own + step; distance > -keys && distance < queries; distance += step) {
      before = empty(distance) && (before || (exact && count_of(distance) >= kSurelyMasked));
      if (before) masked.push_back(distance);
    }
  }
  std::sort(masked.begin(), masked.end());
  return masked;
}

/// Adds the masks of a kind's layers, each once with the layers that it is of.
void add_masks(const AttentionPicture& picture, json& kind, const AttentionTokens& tokens) {
  if (kind["kind"] == "cross") return;
  std::map<std::int64_t, std::vector<const AttentionMap*>> layers;
  for (const AttentionMap& map : picture.maps) {
    if (map.kind == kind["kind"] && map.measure == "weights") layers[map.layer].push_back(&map);
  }
  std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> masks;
  for (const auto& [layer, heads] : layers)
    masks[masked_distances(heads, tokens.key_range[0] - tokens.query_range[0])].push_back(layer);
  masks.erase(std::vector<std::int64_t>());
  for (const auto& [distances, of] : masks)
    kind["masks"].push_back({{"layers", of}, {"distances", distances}});
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
      add_masks(picture, *kind, tokens_of(picture, map));
    }
    (*kind)["maps"].push_back(map_data(picture, map, packs, bits));
  }
  return kinds;
}

}  // namespace

std::string deflated_base64(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), 6);
  if (status != Z_OK) throw Error("page: the data cannot be compressed (out of memory)");
  out.resize(size);
  return encode_base64(out);
}

NumberRange range_of(std::span<const float> numbers) {
  NumberRange range;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    range.largest = std::max(range.largest, std::abs(number));
    range.has_signs = range.has_signs || number < 0;
  }
  return range;
}

std::string pack_numbers(std::span<const float> numbers, int bits) {
  const NumberRange range = range_of(numbers);
  const double levels = (1 << bits) - 1, zero = range.has_signs ? (levels - 1) / 2 : 0;
  const double factor =
      range.largest > 0 ? (range.has_signs ? zero : levels) / static_cast<double>(range.largest) : 0;
  const std::size_t bytes = (static_cast<std::size_t>(bits) + 7) / 8;
  std::string codes(numbers.size() * bytes, '\0');
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double number = std::isfinite(numbers[i]) ? static_cast<double>(numbers[i]) : 0;
    const auto code = static_cast<unsigned>(std::lround(number * factor + zero));
    for (std::size_t byte = 0; byte < bytes; ++byte)
      codes[byte * numbers.size() + i] = static_cast<char>(code >> 8 * (bytes - 1 - byte) & 0xFF);
  }
  return deflated_base64(codes);
}

PageData page_data(const AttentionPicture& picture, int bits) {
  Packs packs;
  json kinds = kinds_data(picture, packs, bits);
  json data{{"title", picture.title.empty() ? "Attention" : visible(picture.title)},
            {"bits", bits},
            {"palette", palette(1)},
            {"negative", palette(-1)},
            {"kinds", std::move(kinds)}};
  if (const PictureModel& model = picture.model; !model.task.empty()) {
    json& shown =
        data["model"] = {{"name", visible(model.name)}, {"task", model.task}, {"answer", json::array()}};
    for (const Candidate& one : model.answer)
      shown["answer"].push_back({visible(one.token), rounded(static_cast<double>(one.probability))});
    for (const auto& [kind, size] : model.sizes) shown["sizes"][kind] = {size.layers, size.heads};
  }
  if (!picture.scored.empty()) data["scored"] = visible_tokens(picture.scored);
  if (const RecordedSound& sound = picture.sound; sound.seconds > 0) {
    data["sound"] = {{"start", sound.start}, {"seconds", sound.seconds}, {"words", json::array()}};
    for (const SpokenWord& word : sound.words) {
      json& shown = data["sound"]["words"].emplace_back(json{{"text", visible(word.text)},
                                                             {"start", nullptr},
                                                             {"end", nullptr},
                                                             {"first", word.queries[0]},
                                                             {"count", word.queries[1] - word.queries[0]}});
      if (word.timed) shown["start"] = word.start, shown["end"] = word.end;
    }
  }
  if (const InputImage& image = picture.image; image.width > 0) {
    data["image"] = {{"png", encode_base64(encode_png(image.width, image.height, image.rgb))},
                     {"rows", image.rows},
                     {"columns", image.columns},
                     {"first", image.first}};
    if (image.upward) data["image"]["upward"] = true;
  }
  return {std::move(data), std::move(packs.list)};
}

}  // namespace heed::plot
