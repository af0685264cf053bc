// Compares with distances counted by hand.
#include "core/edit_distance.h"

#include <gtest/gtest.h>

namespace heed {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3u);
  EXPECT_EQ(edit_distance("transalte", "translate"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // nothing may be inserted between swapped letters
}

TEST(NearestWord, IsOneThatWasProbablyMeant) {
  const std::vector<std::string> words{"translate", "train", "generate", "tag"};
  EXPECT_EQ(nearest_word("transalte", words), "translate");
  EXPECT_EQ(nearest_word("gen", words), "generate");  // the only one that begins with it
  EXPECT_EQ(nearest_word("tra", words), "");          // two begin with it
  EXPECT_EQ(nearest_word("evaluate", words), "");     // too far from all of them
}

}  // namespace
}  // namespace heed
