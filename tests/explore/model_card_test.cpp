// Texts to try in the front matter of a card, well formed or not.
#include "explore/model/model_card.h"

#include <gtest/gtest.h>

#include <fstream>

#include "reference/temporary_folder.h"

namespace heed::explore {
namespace {

using Texts = std::vector<std::string>;

TEST(ModelCard, NamesTextsToTry) {
  EXPECT_EQ(
      examples_in_card(
          "---\nlanguage: en\nwidget:\n- text: \"To be, or \\\"not\\\"\\nto be\"\n- text: 'It''s'\n"
          "  - text: plain: as it is \r\n    example_title: x\n- src: picture.png\nlicense: mit\n- text: no\n"
          "---\nwidget:\n- text: no\n"),
      (Texts{"To be, or \"not\"\nto be", "It's", "plain: as it is"}));
}

TEST(ModelCard, PassesOverWhatIsNoText) {
  for (const char* card : {"", "# A model\nwidget:\n- text: no\n", "---", "---\nwidget:\n- text:\n",
                           "---\nwidget:\n- text: \"open\n", "---\nwidget:\n- text: |\n    block\n",
                           "---\nwidget: [a]\n- text: no\n", "---\nwidget:\n- text: \xff\n"})
    EXPECT_EQ(examples_in_card(card), Texts()) << card;
  EXPECT_EQ(examples_in_card("---\nwidget:\n- text: " + std::string(501, 'a') + "\n- text: b"), Texts{"b"});
  std::string many = "---\nwidget:\n";
  for (int i = 0; i < 20; ++i) many += "- text: a\n";
  EXPECT_EQ(examples_in_card(many).size(), 8u);
}

TEST(ModelCard, AModelNeedsNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(examples_of(folder.path()), Texts());
  std::ofstream(folder.path() / "README.md") << "---\nwidget:\n- text: a\n---\n";
  EXPECT_EQ(examples_of(folder.path()), Texts{"a"});
}

}  // namespace
}  // namespace heed::explore
