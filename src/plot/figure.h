// The layout of a figure of attention, the same for SVG, PDF and PNG: title and model; one section per kind
// and measure, each a grid of maps with one row per layer and one column per head (a single layer's heads
// wrap); and the legends. Maps of a kind share their tokens, so only the outer maps have labels. Each measure
// has its own scale of colors, and its legend. Maps along the time of a recording lie below its spectrogram,
// a row for each word, with the beginning and end of the word marked where they are known, and the seconds
// below all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/plot/picture.h"
#include "plot/canvas.h"
#include "plot/labels.h"

namespace heed::plot {

inline constexpr double kUsualWidth = 960;

/// Of maps along the time of a recording: the space below the spectrogram, and that of the seconds.
inline constexpr double kStripGap = 4, kTimeAxis = 20;

inline constexpr double kFigureMargin = 20, kPanelGap = 18, kPanelCaption = 22, kSectionTitle = 26;

/// The style of tokens beside the maps.
inline TextStyle label_style(double font) { return {font, 0.6 * font, Ink::dark}; }

/// The maps of one kind and measure in rows and columns of panels, with their dimensions.
struct Section {
  std::string kind, measure;
  const AttentionTokens* tokens = nullptr;
  const InputImage* image = nullptr;     // under the maps or, along time, above them
  const RecordedSound* sound = nullptr;  // whose time the columns are
  bool along_time = false;
  std::vector<std::string> rows, columns;                // labels
  std::vector<std::vector<const AttentionMap*>> panels;  // null for a missing head
  double cell = 0, row = 0;                              // width and height of a weight
  double strip = 0;  // height of the spectrogram above the rows, with the space below it
  double axis = 0;   // space for the seconds below the panels
  double font = 0, left = 0, above = 0, right = 0;  // space for the labels beside the panels
  std::size_t panels_across = 0;
  bool words_of_one_head = false;  // the panels are words', which alone are their captions

  double panel_width() const { return cell * static_cast<double>(columns.size()); }
  double panel_height() const { return strip + row * static_cast<double>(rows.size()); }
  bool has_row_labels() const { return image == nullptr || along_time; }
  double width() const {
    return left + static_cast<double>(panels_across) * (panel_width() + kPanelGap) - kPanelGap + right;
  }
  double height() const {
    return kSectionTitle + above +
           static_cast<double>(panels.size()) * (panel_height() + axis + kPanelCaption + kPanelGap);
  }
  /// Sets the size of cells, and the font and the space for labels that go with it.
  void resize(double cell, const Canvas& canvas);
  bool can_shrink() const;
  void shrink(const Canvas& canvas);
};

/// Returns a section for each kind, and in it for each measure, in the order of the maps; panels of one row
/// take about `width` units.
std::vector<Section> place_maps(const AttentionPicture& picture, double width, const Canvas& canvas);

/// Row `row` of a map in `columns` columns: of the keys in each, the number of the largest magnitude. NaN if
/// one of them is.
std::vector<float> in_columns(const AttentionMap& map, std::int64_t row, std::int64_t columns);

/// Where a time of the recording is, as a share of the columns from left to right; from 0 to 1.
double share_of_time(const RecordedSound& sound, double seconds);

/// Whether the time of a word is known.
bool has_times(const RecordedSound& sound);

/// Times to write below `width` columns or units, of which a label takes about `label`: multiples of 1, 2 or
/// 5 times a power of ten.
struct TimeTick {
  double share = 0;
  std::string text;  // "2.5 s" of the first, then the number alone
};
std::vector<TimeTick> time_ticks(const RecordedSound& sound, double width, double label);

/// Draws the spectrogram, the map's rows below it and the words' times over them.
void draw_along_time(const PlacedMap& placed, Canvas& canvas);
/// Draws the seconds below a map, which may also lie over the spectrogram.
void draw_time_axis(const Section& section, double left, double top, Canvas& canvas);

/// Breaks a title or a note into at most four lines. The average character is that of most titles; where the
/// canvas knows better, lines get shorter until they fit.
std::vector<std::string> lines_of(const std::string& text, double room, const TextStyle& style,
                                  const Canvas& canvas);

class Figure {
 public:
  /// Places the sections on a canvas, both of which must outlive the figure.
  Figure(const AttentionPicture& picture, const std::vector<Section>& sections, const Canvas& canvas);

  double width() const { return width_; }
  double height() const { return height_; }
  void draw(Canvas& canvas) const;

 private:
  bool is_over_image() const { return sections_.front().image != nullptr && !sections_.front().along_time; }
  const char* note() const;
  void draw_section(const Section& section, double top, Canvas& canvas) const;
  void draw_legend(const MeasureScale& scale, double top, Canvas& canvas) const;
  std::string section_title(const Section& section) const;
  std::string legend_text(const MeasureScale& scale) const;
  double legend_width(const MeasureScale& scale, const Canvas& canvas) const;

  const std::vector<Section>& sections_;
  std::vector<MeasureScale> scales_;
  std::vector<std::string> title_, subtitle_;  // the model
  double width_ = 300, height_ = 0;
};

}  // namespace heed::plot
