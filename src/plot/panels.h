// How figures place their maps: a section per kind and measure, in it a grid of panels with one row per layer
// and one column per head (a single layer's heads wrap).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heed/plot/picture.h"
#include "plot/canvas.h"

namespace heed::plot {

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

}  // namespace heed::plot
