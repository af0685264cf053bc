// Maps of the parts of an image, laid over it.
#include <algorithm>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/labels.h"

namespace heed {
namespace {

std::vector<std::string> numbers(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

}  // namespace

AttentionPicture over_image(const AttentionPicture& picture, std::optional<std::int64_t> query) {
  plot::check_picture(picture);
  const InputImage& image = picture.image;
  const std::int64_t parts = image.rows * image.columns;
  // The keys after those of a sound are padding, and nobody asks for what padding attends to.
  const bool is_sound = picture.sound.seconds > 0;
  AttentionPicture over;
  over.title = picture.title;
  over.image = image;
  over.sound = picture.sound;
  over.beside = picture.beside;
  over.over_image = true;
  for (const AttentionMap& map : picture.maps) {
    if (std::find(picture.beside.begin(), picture.beside.end(), map.kind) != picture.beside.end()) {
      over.maps.push_back(map);
      over.tokens[map.kind] = plot::tokens_of(picture, map);
      continue;
    }
    const std::int64_t keys = image.first + parts;
    if (image.width == 0 || (is_sound ? map.keys < keys || map.kind == "cross" : map.keys != keys)) continue;
    if (query && (*query < 0 || *query >= map.queries)) {
      throw Error("attention picture: expected a query below " + std::to_string(map.queries) + ", got " +
                  std::to_string(*query));
    }
    AttentionMap& laid = over.maps.emplace_back(map);
    laid.queries = image.rows;
    laid.keys = image.columns;
    laid.weights.assign(static_cast<std::size_t>(parts), 0.0f);
    const std::int64_t first = query.value_or(0), end = query      ? *query + 1
                                                        : is_sound ? std::min(keys, map.queries)
                                                                   : map.queries;
    for (std::int64_t part = 0; part < parts; ++part) {
      double sum = 0;
      for (std::int64_t row = first; row < end; ++row)
        sum +=
            static_cast<double>(map.weights[static_cast<std::size_t>(row * map.keys + image.first + part)]);
      const std::int64_t row = part / image.columns;
      const std::int64_t shown = image.upward ? image.rows - 1 - row : row;
      laid.weights[static_cast<std::size_t>(shown * image.columns + part % image.columns)] =
          static_cast<float>(sum / static_cast<double>(end - first));
    }
    over.tokens[map.kind] = {numbers(image.rows), numbers(image.columns)};
  }
  if (over.maps.empty()) throw Error("attention picture: expected maps of the parts of an image, got none");
  return over;
}

AttentionPicture words_over_image(const AttentionPicture& picture, const std::vector<QueryGroup>& words) {
  plot::check_picture(picture);
  AttentionPicture over;
  over.title = picture.title;
  over.image = picture.image;
  over.over_image = true;
  for (const AttentionMap& map : picture.maps) {
    for (const QueryGroup& word : words) {
      if (word.first < 0 || word.end > map.queries || word.first >= word.end) {
        throw Error("attention picture: expected words of the " + std::to_string(map.queries) +
                    " queries, got " + std::to_string(word.first) + " to " + std::to_string(word.end));
      }
      AttentionPicture one;
      one.image = picture.image;
      AttentionMap& rows = one.maps.emplace_back(map);
      rows.queries = word.end - word.first;
      rows.weights.assign(map.weights.begin() + word.first * map.keys,
                          map.weights.begin() + word.end * map.keys);
      one.tokens[map.kind] = {numbers(rows.queries), numbers(map.keys)};
      one = over_image(one, std::nullopt);
      one.maps.front().word = word.label;
      over.maps.push_back(std::move(one.maps.front()));
      over.tokens[map.kind] = std::move(one.tokens[map.kind]);
    }
  }
  return over;
}

bool AttentionPicture::is_over_image(const std::string& kind) const {
  return over_image && std::find(beside.begin(), beside.end(), kind) == beside.end();
}

}  // namespace heed
