// A figure as one page of PDF, by cairo: cells are boxes, and text is text, in the system's fonts.
#pragma once

#include <functional>
#include <string>

#include "plot/canvas.h"
#include "plot/color.h"

namespace heed::plot {

/// The whole file of a page that `draw` draws. Lengths are those of FigureStyle: 96 to the inch; width 0: as
/// the figure needs. Throws Error if the system has no font, cairo failed, or heed was built without it.
std::string pdf_page(double width, Palette palette, const std::function<void(Canvas&)>& draw);

}  // namespace heed::plot
