// heed built without cairo: an error where a PDF is asked for.
#include "heed/error.h"
#include "plot/pdf_canvas.h"

namespace heed::plot {

std::string pdf_page(double, Palette, const std::function<void(Canvas&)>&) {
  throw Error(
      "PDF: expected another kind of figure, since this heed was built without cairo (write SVG or PNG; or "
      "install "
      "libcairo2-dev, configure and build again)");
}

}  // namespace heed::plot
