// Maps of the words of a recording, along its time.
#include "plot/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "plot/labels.h"

namespace heed {

AttentionPicture along_time(const AttentionPicture& picture) {
  plot::check_picture(picture);
  const RecordedSound& sound = picture.sound;
  if (sound.words.empty()) throw Error("attention picture: expected the words of a recording, got none");
  const std::int64_t columns = picture.image.columns;
  AttentionPicture along;
  along.title = picture.title;
  along.image = picture.image;
  along.sound = sound;
  along.along_time = true;
  for (const AttentionMap& map : picture.maps) {
    if (map.kind != "cross" || map.keys < columns) continue;
    AttentionMap& laid = along.maps.emplace_back(map);
    laid.queries = std::ssize(sound.words);
    laid.keys = columns;
    laid.weights.clear();
    for (const SpokenWord& word : sound.words) {
      const auto [first, end] = word.queries;
      if (first < 0 || first >= end || end > map.queries)
        throw Error(fmt::format("attention picture: expected queries of words below {}, got {} to {}",
                                map.queries, first, end));
      for (std::int64_t key = 0; key < columns; ++key) {
        double sum = 0;
        for (std::int64_t query = first; query < end; ++query)
          sum += static_cast<double>(map.weights[static_cast<std::size_t>(query * map.keys + key)]);
        laid.weights.push_back(static_cast<float>(sum / static_cast<double>(end - first)));
      }
    }
  }
  if (along.maps.empty())
    throw Error("attention picture: expected maps of cross-attention to a recording, got none");
  AttentionTokens& tokens = along.tokens["cross"];
  for (const SpokenWord& word : sound.words) {
    const std::size_t begin = word.text.find_first_not_of(' ');
    tokens.queries.push_back(begin == std::string::npos ? word.text : word.text.substr(begin));
  }
  const std::vector<std::string>& keys = picture.tokens.find("cross")->second.keys;
  tokens.keys.assign(keys.begin(), keys.begin() + columns);
  return along;
}

namespace plot {
namespace {

constexpr Rgb kWordTime{0xc2, 0x41, 0x0c}, kRule{0xc4, 0xc4, 0xc4}, kMissing{0xcc, 0xcc, 0xcc};
constexpr TextStyle kSeconds{10, 6, Ink::gray, Anchor::middle};

void draw_spectrogram(const PlacedMap& placed, Canvas& canvas) {
  const Section& section = placed.section;
  const InputImage& image = *section.image;
  const Box box{placed.left, placed.top, section.panel_width(), section.strip - kStripGap};
  canvas.image(image, box);
  canvas.outline(box, kRule);
}

void draw_rows(const PlacedMap& placed, Canvas& canvas) {
  const Section& section = placed.section;
  const AttentionMap& map = placed.map;
  const auto width = std::max<std::int64_t>(1, std::lround(section.panel_width() * canvas.resolution()));
  Shades shades(canvas.palette());
  for (std::int64_t row = 0; row < map.queries; ++row) {
    Pixels pixels{width, 1, {}};
    for (const float weight : in_columns(map, row, width)) {
      const Rgb color = std::isfinite(weight) ? shades(weight / placed.largest) : kMissing;
      pixels.rgb.insert(pixels.rgb.end(), {color.r, color.g, color.b});
    }
    const SpokenWord& word = section.sound->words[static_cast<std::size_t>(row)];
    const Box box{placed.left, placed.top + section.strip + static_cast<double>(row) * section.row,
                  section.panel_width(), section.row - 1};
    const std::string text = visible(section.tokens->queries[static_cast<std::size_t>(row)]);
    canvas.raster(pixels, box,
                  word.timed ? fmt::format("{}: {:.2f} s to {:.2f} s", text, word.start, word.end) : text);
    if (!word.timed) continue;
    const double from = share_of_time(*section.sound, word.start) * box.width;
    const double to = share_of_time(*section.sound, word.end) * box.width;
    canvas.outline({box.left + from, box.top, std::max(1.0, to - from), box.height}, kWordTime);
  }
}

}  // namespace

std::vector<float> in_columns(const AttentionMap& map, std::int64_t row, std::int64_t columns) {
  std::vector<float> values;
  const float* weights = map.weights.data() + row * map.keys;
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t first = column * map.keys / columns;
    const std::int64_t end = std::max(first + 1, (column + 1) * map.keys / columns);
    float most = weights[first];
    for (std::int64_t key = first; key < end; ++key) {
      if (std::isnan(weights[key]) || std::abs(weights[key]) > std::abs(most)) most = weights[key];
    }
    values.push_back(most);
  }
  return values;
}

bool has_times(const RecordedSound& sound) {
  return std::any_of(sound.words.begin(), sound.words.end(),
                     [](const SpokenWord& word) { return word.timed; });
}

double share_of_time(const RecordedSound& sound, double seconds) {
  return std::clamp((seconds - sound.start) / sound.seconds, 0.0, 1.0);
}

std::vector<TimeTick> time_ticks(const RecordedSound& sound, double width, double label) {
  const double least = sound.seconds * std::min(1.0, 2 * label / width);  // from one to the next
  double step = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor < least) continue;
    step *= factor;
    break;
  }
  std::vector<TimeTick> ticks;
  for (double n = std::ceil(sound.start / step); n * step <= sound.start + sound.seconds; ++n) {
    const double at = n * step;
    ticks.push_back({share_of_time(sound, at), fmt::format("{:g}{}", at, ticks.empty() ? " s" : "")});
  }
  return ticks;
}

void draw_along_time(const PlacedMap& placed, Canvas& canvas) {
  draw_spectrogram(placed, canvas);
  draw_rows(placed, canvas);
}

void draw_time_axis(const Section& section, double left, double top, Canvas& canvas) {
  const double width = section.panel_width();
  for (const TimeTick& tick : time_ticks(*section.sound, width, canvas.width_of("00.0 s", kSeconds))) {
    const double x = left + tick.share * width;
    canvas.outline({x, top + 2, 0, 4}, kRule);
    const double half = canvas.width_of(tick.text, kSeconds) / 2;
    canvas.text({std::clamp(x, left + half, left + width - half), top + 17, tick.text}, kSeconds);
  }
}

}  // namespace plot
}  // namespace heed
