// Lines of right-to-left and of mixed text.
#include "plot/fonts.h"

#include <gtest/gtest.h>

namespace heed::plot {
namespace {

TEST(VisualOrder, IsThatOfALineAsItIsShown) {
  EXPECT_EQ(visual_order(""), "");
  EXPECT_EQ(visual_order("a (b)"), "a (b)");
  EXPECT_EQ(visual_order("e\u0301"), "\u00e9");
  EXPECT_EQ(visual_order("\u05d0\u05d1 12"), "12 \u05d1\u05d0")
      << "Hebrew from right to left, its numbers not";
  EXPECT_EQ(visual_order("a \u05d0(\u05d1"), "a \u05d1)\u05d0") << "brackets are mirrored";
  EXPECT_EQ(visual_order("\u0628\u0628"), "\ufe90\ufe91") << "Arabic: the final form left of the initial one";
  EXPECT_EQ(visual_order("\u05d1\u05b0\u05d0"), "\u05d0\u05d1\u05b0") << "marks stay behind their letters";
  EXPECT_EQ(visual_order("\u732b\U0001F600"), "\u732b\U0001F600");
}

}  // namespace
}  // namespace heed::plot
