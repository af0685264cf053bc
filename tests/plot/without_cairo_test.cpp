// heed without cairo: a PDF is refused before it is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "plot/pdf_canvas.h"
#include "reference/error.h"

namespace heed::plot {
namespace {

TEST(WithoutCairo, APdfIsRefused) {
  EXPECT_ERROR(
      pdf_page(0, Palette::blue, [](Canvas&) { ADD_FAILURE() << "drawn"; }),
      "PDF: expected another kind of figure, since this heed was built without cairo (write SVG or PNG;");
}

}  // namespace
}  // namespace heed::plot
