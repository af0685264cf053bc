// Places the maps of a figure of attention, and draws it.
#include "plot/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "plot/labels.h"

namespace heed::plot {
namespace {

constexpr double kTitleLine = 20, kSubtitleLine = 16, kLegendLine = 18, kLegendBar = 160;
constexpr std::size_t kMostLines = 4;
constexpr TextStyle kTitle{16, 9.5, Ink::dark, Anchor::start, true};
constexpr TextStyle kSectionLine{13, 7.3};
constexpr TextStyle kCaption{12, 6.4, Ink::gray, Anchor::middle};
constexpr TextStyle kSmall{11, 6.4};
constexpr const char* kAxes = "rows: queries, columns: keys";
constexpr const char* kParts = "each square: a part of the image";
constexpr const char* kSpectrogram = "behind: the spectrogram, low frequencies at the bottom";
constexpr const char* kTimedWords =
    "rows: words, boxed from their beginning to their end; above: the spectrogram";
constexpr const char* kWords = "rows: words; above: the spectrogram";

std::string low_number(const MeasureScale& scale) {
  return scale.negative ? fmt::format("−{:.2g}", scale.largest) : "0";
}

/// In few characters where panels are too narrow for the whole; of words, all in the same form.
std::string caption_of(const Section& section, const AttentionMap& map, const Canvas& canvas) {
  const auto fits = [&](const std::string& text) {
    return section.panels_across == 1 || canvas.width_of(text, kCaption) <= section.panel_width() + kPanelGap;
  };
  if (map.word.empty()) return fits(head_title(map)) ? head_title(map) : short_title(map);
  std::string text = section.words_of_one_head ? visible(map.word) : short_title(map);
  for (int width = 40; width > 1 && !fits(text); --width) text = shorten(text, width);
  return text;
}

/// If cells are smaller than their labels, only every n-th is labeled.
std::size_t label_step(const Section& section, double cell) {
  return static_cast<std::size_t>(std::max(1.0, std::ceil((section.font + 1) / cell)));
}

void draw_row_labels(const Section& section, double top, Canvas& canvas) {
  std::vector<PlacedText> labels;
  for (std::size_t i = 0; i < section.rows.size(); i += label_step(section, section.row)) {
    const double y = top + section.strip + (static_cast<double>(i) + 0.5) * section.row + section.font * 0.35;
    labels.push_back({kFigureMargin + section.left - 6, y, section.rows[i]});
  }
  TextStyle style = label_style(section.font);
  style.anchor = Anchor::end;
  canvas.labels(labels, style, false);
}

void draw_column_labels(const Section& section, double left, double top, Canvas& canvas) {
  std::vector<PlacedText> labels;
  for (std::size_t i = 0; i < section.columns.size(); i += label_step(section, section.cell)) {
    const double x = left + (static_cast<double>(i) + 0.5) * section.cell + section.font * 0.3;
    labels.push_back({x, top - 5, section.columns[i]});
  }
  canvas.labels(labels, label_style(section.font), true);
}

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

std::vector<std::string> lines_of(const std::string& text, double room, const TextStyle& style,
                                  const Canvas& canvas) {
  if (text.empty()) return {};
  const std::string shown = visible(text);
  int longest = std::max(30, static_cast<int>(room / style.character));
  const auto too_long = [&](const std::string& line) { return canvas.width_of(line, style) > room; };
  std::vector<std::string> lines = wrap(shown, longest, kMostLines);
  while (canvas.measures() && longest > 1 && std::any_of(lines.begin(), lines.end(), too_long))
    lines = wrap(shown, --longest, kMostLines);
  return lines;
}

Figure::Figure(const AttentionPicture& picture, const std::vector<Section>& sections, const Canvas& canvas)
    : sections_(sections), scales_(measure_scales(picture)) {
  height_ = kFigureMargin;
  for (const Section& section : sections_) {
    width_ = std::max({width_, section.width() + 2 * kFigureMargin,
                       canvas.width_of(section_title(section), kSectionLine) + 2 * kFigureMargin});
    height_ += section.height();
  }
  for (const MeasureScale& scale : scales_) width_ = std::max(width_, legend_width(scale, canvas));
  title_ = lines_of(picture.title, width_ - 2 * kFigureMargin, kTitle, canvas);
  subtitle_ = lines_of(picture.model.name, width_ - 2 * kFigureMargin, kSmall, canvas);
  height_ +=
      kTitleLine * static_cast<double>(title_.size()) + kSubtitleLine * static_cast<double>(subtitle_.size());
  if (!title_.empty() || !subtitle_.empty()) height_ += 14;
  height_ += 12 + kLegendLine * static_cast<double>(scales_.size() + 1) + kFigureMargin / 2;
  width_ = std::ceil(width_);
  height_ = std::ceil(height_);
}

void Figure::draw(Canvas& canvas) const {
  canvas.open(width_, height_);
  double y = kFigureMargin;
  for (const std::string& line : title_) {
    canvas.text({kFigureMargin, y + 14, line}, kTitle);
    y += kTitleLine;
  }
  for (const std::string& line : subtitle_) {
    canvas.text({kFigureMargin, y + 11, line}, kSmall);
    y += kSubtitleLine;
  }
  if (!title_.empty() || !subtitle_.empty()) y += 14;
  for (const Section& section : sections_) {
    draw_section(section, y, canvas);
    y += section.height();
  }
  y += 6;
  for (const MeasureScale& scale : scales_) {
    draw_legend(scale, y, canvas);
    y += kLegendLine;
  }
  canvas.text({kFigureMargin, y + 10, note()}, kSmall);
}

void Figure::draw_section(const Section& section, double top, Canvas& canvas) const {
  canvas.text({kFigureMargin, top + 12, section_title(section)}, kSectionLine);
  for (std::size_t r = 0; r < section.panels.size(); ++r) {
    const double y =
        top + kSectionTitle + section.above +
        static_cast<double>(r) * (section.panel_height() + section.axis + kPanelCaption + kPanelGap);
    if (section.has_row_labels()) draw_row_labels(section, y, canvas);
    for (std::size_t c = 0; c < section.panels[r].size(); ++c) {
      const AttentionMap* map = section.panels[r][c];
      if (map == nullptr) continue;
      const double x =
          kFigureMargin + section.left + static_cast<double>(c) * (section.panel_width() + kPanelGap);
      if (r == 0 && section.image == nullptr) draw_column_labels(section, x, y, canvas);
      const PlacedMap placed{section, *map, x, y, largest_of(scales_, map->measure)};
      section.along_time ? draw_along_time(placed, canvas) : canvas.map(placed);
      const double below = y + section.panel_height();
      if (section.sound != nullptr) draw_time_axis(section, x, below, canvas);
      canvas.text(
          {x + section.panel_width() / 2, below + section.axis + 16, caption_of(section, *map, canvas)},
          kCaption);
    }
  }
}

const char* Figure::note() const {
  const Section& first = sections_.front();
  if (first.along_time) return has_times(*first.sound) ? kTimedWords : kWords;
  return !is_over_image() ? kAxes : first.sound != nullptr ? kSpectrogram : kParts;
}

/// From 0, or where there are negative numbers from the largest magnitude below it.
void Figure::draw_legend(const MeasureScale& scale, double top, Canvas& canvas) const {
  const std::string low = low_number(scale);
  const double bar = kFigureMargin + 6 + canvas.width_of(low, kSmall);
  canvas.legend({scale.negative ? -1.0 : 0.0,
                 bar,
                 top,
                 kLegendBar,
                 {kFigureMargin, top + 10, low},
                 {bar + 6 + kLegendBar, top + 10, legend_text(scale)},
                 is_over_image()},
                kSmall);
}

/// The kind, and the measure unless the figure has weights alone.
std::string Figure::section_title(const Section& section) const {
  std::string title = kind_title(section.kind);
  if (section.words_of_one_head) {
    AttentionMap map = *section.panels.front().front();
    map.word = {};
    title += ", " + head_title(map);
  }
  if (scales_.size() == 1 && section.measure == "weights") return title;
  return title + ", " + measure_title(section.measure);
}

std::string Figure::legend_text(const MeasureScale& scale) const {
  const std::string largest = fmt::format("{:.2g}", scale.largest);
  return scales_.size() > 1 ? largest + " \u00A0" + measure_title(scale.measure) : largest;
}

double Figure::legend_width(const MeasureScale& scale, const Canvas& canvas) const {
  const double high = canvas.width_of(legend_text(scale), kSmall);
  if (!canvas.measures()) return kLegendBar + 80 + high;
  return 2 * kFigureMargin + 12 + canvas.width_of(low_number(scale), kSmall) + kLegendBar + high;
}

}  // namespace heed::plot
