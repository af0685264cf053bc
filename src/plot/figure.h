// The layout of a figure of attention, the same for SVG and PNG: title and model; one section per kind and
// measure, each a grid of maps with one row per layer and one column per head (a single layer's heads wrap);
// and the legends. Maps of a kind share their tokens, so only the outer maps have labels. Each measure has
// its own scale of colors, and its legend.
#pragma once

#include <string>
#include <vector>

#include "heed/plot/picture.h"
#include "plot/canvas.h"
#include "plot/labels.h"
#include "plot/panels.h"

namespace heed::plot {

inline constexpr double kUsualWidth = 960;

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
