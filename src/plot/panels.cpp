// Places the maps of figures. Maps of a kind share their tokens, so only the outer maps have labels.
#include "plot/panels.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "plot/labels.h"

namespace heed::plot {
namespace {

constexpr double kTiltCosine = 0.5, kTiltSine = 0.866;  // column labels rise at 60 degrees
constexpr int kLongestLabel = 20;
// Of a recording.
constexpr double kStripHeight = 64, kWordRow = 16, kWordFont = 11, kLeastPanelHeight = 72,
                 kLeastPanelWidth = 200;

std::vector<std::string> labels_of(const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (const std::string& token : tokens) labels.push_back(shorten(visible(token), kLongestLabel));
  return labels;
}

double label_room(const std::vector<std::string>& labels, double font, const Canvas& canvas) {
  double widest = 0;
  for (const std::string& label : labels)
    widest = std::max(widest, canvas.width_of(label, label_style(font)));
  return widest + 8;
}

template <typename T>
std::size_t index_of(std::vector<T>& values, const std::type_identity_t<T>& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) return static_cast<std::size_t>(found - values.begin());
  values.push_back(value);
  return values.size() - 1;
}

/// Returns the widest cell with which `across` panels of `keys` columns fit the page.
double cell_for(std::size_t across, std::size_t keys, double largest, double width) {
  const double panel = (width - kPanelGap * static_cast<double>(across - 1)) / static_cast<double>(across);
  return std::clamp(std::floor(panel / static_cast<double>(keys)), 3.0, largest);
}

/// The words of each head side by side; those of the next begin a row.
void place_words(Section& section, const std::vector<const AttentionMap*>& maps) {
  constexpr std::size_t kWordsAcross = 5;
  const AttentionMap* before = nullptr;
  section.words_of_one_head = true;
  for (const AttentionMap* map : maps) {
    const bool next = before == nullptr || before->layer != map->layer || before->head != map->head;
    section.words_of_one_head = section.words_of_one_head && (before == nullptr || !next);
    if (next || section.panels.back().size() == kWordsAcross) section.panels.emplace_back();
    section.panels.back().push_back(map);
    before = map;
  }
}

void place_panels(Section& section, const std::vector<const AttentionMap*>& maps, double width) {
  if (!maps.front()->word.empty()) return place_words(section, maps);
  std::vector<std::int64_t> layers, heads;
  for (const AttentionMap* map : maps) {
    index_of(layers, map->layer);
    index_of(heads, map->head);
  }
  const bool rollout = section.measure == "rollout";  // one map per layer, not of a head
  if (layers.size() > 1 && maps.size() <= layers.size() * heads.size() && !rollout &&
      section.sound == nullptr) {
    section.panels.assign(layers.size(), std::vector<const AttentionMap*>(heads.size(), nullptr));
    for (const AttentionMap* map : maps)
      section.panels[index_of(layers, map->layer)][index_of(heads, map->head)] = map;
    return;
  }
  // Four panels per row, unless the cells of a longer sentence would be too small for labels. Time needs
  // width.
  std::size_t across = std::min<std::size_t>(maps.size(), section.sound != nullptr ? 2 : 4);
  while (section.sound == nullptr && across > 1 && cell_for(across, section.columns.size(), 30, width) < 13)
    --across;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (i % across == 0) section.panels.emplace_back();
    section.panels.back().push_back(maps[i]);
  }
}

Section make_section(const AttentionPicture& picture, const std::string& kind, const std::string& measure,
                     double width, const Canvas& canvas) {
  Section section;
  section.kind = kind;
  section.measure = measure;
  section.tokens = &picture.tokens.find(kind)->second;
  if (picture.is_over_image(kind) || picture.along_time) {
    section.image = &picture.image;
    section.along_time = picture.along_time;
    if (picture.sound.seconds > 0) section.sound = &picture.sound;
  }
  section.rows = labels_of(section.tokens->queries);
  section.columns = labels_of(section.tokens->keys);
  std::vector<const AttentionMap*> maps;
  for (const AttentionMap& map : picture.maps) {
    if (map.kind == kind && map.measure == measure) maps.push_back(&map);
  }
  place_panels(section, maps, width);
  for (const auto& row : section.panels) section.panels_across = std::max(section.panels_across, row.size());
  if (section.sound != nullptr) {
    const auto across = static_cast<double>(section.panels_across);
    section.resize((width - kPanelGap * (across - 1)) / across / static_cast<double>(section.columns.size()),
                   canvas);
    return section;
  }
  section.resize(cell_for(section.panels_across, section.columns.size(), maps.size() == 1 ? 34 : 26, width),
                 canvas);
  return section;
}

}  // namespace

void Section::resize(double size, const Canvas& canvas) {
  cell = row = size;
  font = std::clamp(cell * 0.75, 8.0, 14.0);
  if (sound != nullptr) {
    const auto count = static_cast<double>(rows.size());
    axis = kTimeAxis;
    strip = along_time ? kStripHeight + kStripGap : 0;
    row = along_time ? kWordRow : std::max(size, kLeastPanelHeight / count);
    font = kWordFont;
    if (along_time) left = label_room(rows, font, canvas);
  }
  if (image != nullptr) return;
  left = label_room(rows, font, canvas);
  const double longest = label_room(columns, font, canvas);
  above = longest * kTiltSine + font * 0.5;
  right = std::max(0.0, longest * kTiltCosine - cell / 2);
}

bool Section::can_shrink() const { return sound != nullptr ? panel_width() > kLeastPanelWidth : cell > 1; }

void Section::shrink(const Canvas& canvas) {
  constexpr double kShare = 0.97;
  resize(sound != nullptr ? cell * kShare : cell - 1, canvas);
}

std::vector<Section> place_maps(const AttentionPicture& picture, double width, const Canvas& canvas) {
  std::vector<std::string> kinds;
  for (const AttentionMap& map : picture.maps) index_of(kinds, map.kind);
  std::vector<Section> sections;
  for (const std::string& kind : kinds) {
    std::vector<std::string> measures;
    for (const AttentionMap& map : picture.maps) {
      if (map.kind == kind) index_of(measures, map.measure);
    }
    for (const std::string& measure : measures)
      sections.push_back(make_section(picture, kind, measure, width, canvas));
  }
  return sections;
}

}  // namespace heed::plot
