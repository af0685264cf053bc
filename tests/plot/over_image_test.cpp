// Maps of an image's patches, laid over it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/plot/picture.h"
#include "plot/color.h"
#include "reference/error.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A class token and two rows of three patches of 2 x 2 pixels; query 4, the patch (1, 0), attends to the
// patch (0, 2) alone.
AttentionPicture patches() {
  AttentionPicture picture;
  picture.title = "photo.jpg";
  picture.image = {6, 4, {}, 2, 3, 1};
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 6; ++x) {
      for (const int level : {100 + 10 * (y / 2), 50 + 10 * (x / 2), 200})
        picture.image.rgb.push_back(static_cast<std::uint8_t>(level));
    }
  }
  std::vector<std::string> tokens(7, "t");
  picture.tokens["encoder"] = {tokens, tokens};
  AttentionMap map{"encoder.layers.0.self_attn", "encoder", 0, 0, 7, 7, std::vector<float>(49, 0.0f)};
  for (int key = 0; key < 7; ++key)
    map.weights[static_cast<std::size_t>(key)] = 0.1f * static_cast<float>(key);
  map.weights[4 * 7 + 3] = 1.0f;
  picture.maps.push_back(map);
  return picture;
}

TEST(OverImage, AQuerysWeightsAreRowsAndColumns) {
  const AttentionPicture token = over_image(patches(), 0);
  ASSERT_EQ(token.maps.size(), 1u);
  EXPECT_EQ(token.maps[0].queries, 2);
  EXPECT_EQ(token.maps[0].keys, 3);
  EXPECT_THAT(token.maps[0].weights,
              testing::Pointwise(testing::FloatEq(), {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}));
  EXPECT_THAT(over_image(patches(), 4).maps[0].weights, ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_FLOAT_EQ(over_image(patches(), std::nullopt).maps[0].weights[2], 1.3f / 7);
  EXPECT_ERROR(over_image(patches(), 7), "expected a query below 7, got 7");
  AttentionPicture other = patches();
  other.image.rows = 3;
  EXPECT_ERROR(over_image(other, 0), "expected maps of the parts of an image, got none");
}

TEST(OverImage, WeightsCoverOrLightTheImage) {
  EXPECT_EQ(plot::lit({100, 200, 40}, 1), (plot::Rgb{100, 200, 40}));
  EXPECT_EQ(plot::lit({100, 200, 40}, 0), (plot::Rgb{12, 24, 5}));
  EXPECT_EQ(plot::lit({100, 200, 40}, -3), (plot::Rgb{12, 24, 5}));
  EXPECT_EQ(plot::covered({100, 200, 40}, 0, Palette::blue), (plot::Rgb{185, 230, 158}));
  const plot::Rgb largest = plot::shade(1, Palette::red);
  EXPECT_NEAR(plot::covered({0, 0, 0}, 1, Palette::red).r, 0.85 * largest.r + 0.15 * 0.55 * 255, 1);
  EXPECT_EQ(plot::mean_color(patches().image, 1, 2), (plot::Rgb{110, 70, 200}));
}

TEST(OverImage, TheFigureHoldsTheImageOnceAndAPartForEachPatch) {
  AttentionPicture both = patches();
  both.maps.push_back(both.maps.front());
  both.maps.back().head = 1;
  const std::string svg = attention_svg(over_image(both, 4));
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = svg.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("data:image/png;base64,"), 1u);
  EXPECT_EQ(count("<use href=\"#image\""), 2u);
  EXPECT_EQ(count("fill-opacity=\"0.85\""), 2u);
  EXPECT_EQ(count("fill-opacity=\"0.00\""), 10u);
  EXPECT_THAT(svg, HasSubstr("<title>0,2: 1</title>"));
  EXPECT_EQ(attention_png(over_image(both, 4)).substr(1, 3), "PNG");
}

// Cross-attention of a caption: tokens 0 and 4, of which the latter attends to the patch (0, 2) alone, are a
// word, and so is token 4.
AttentionPicture two_words() {
  AttentionPicture picture = patches();
  picture.tokens["cross"] = picture.tokens["encoder"];
  picture.tokens.erase("encoder");
  AttentionMap& map = picture.maps.front();
  map.kind = "cross";
  std::copy_n(map.weights.begin(), 7, map.weights.begin() + 21);  // token 3 as token 0
  return words_over_image(picture, {{"a cat", 3, 5}, {"<sat>", 4, 5}});
}

TEST(WordsOverImage, AWordHasTheMeanOfItsTokens) {
  const AttentionPicture picture = two_words();
  ASSERT_EQ(picture.maps.size(), 2u);
  EXPECT_EQ(picture.maps[0].word, "a cat");
  EXPECT_THAT(picture.maps[0].weights,
              testing::Pointwise(testing::FloatEq(), {0.05f, 0.1f, 0.65f, 0.2f, 0.25f, 0.3f}));
  EXPECT_THAT(picture.maps[1].weights, ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_ERROR(words_over_image(patches(), {{"a", 6, 8}}), "words of the 7 queries, got 6 to 8");
  EXPECT_ERROR(words_over_image(patches(), {{"a", 2, 2}}), "got 2 to 2");
}

TEST(WordsOverImage, AreThePanelsOfAFigure) {
  AttentionPicture picture = two_words();
  const std::string one = attention_svg(picture);
  EXPECT_THAT(one, HasSubstr(">cross-attention, layer 0, head 0</text>"));
  EXPECT_THAT(one, HasSubstr(">a cat</text>"));
  EXPECT_THAT(one, HasSubstr(">&lt;sat&gt;</text>"));
  for (AttentionMap map : two_words().maps) {
    map.head = 1;
    picture.maps.push_back(map);
  }
  const std::string two = attention_svg(picture);
  EXPECT_THAT(two, HasSubstr(">cross-attention</text>"));
  EXPECT_THAT(two, HasSubstr(">a cat 0.1</text>"));
  EXPECT_EQ(attention_png(picture).substr(1, 3), "PNG");
}

TEST(WordsOverImage, AreSideBySideInTheTerminal) {
  const AttentionPicture picture = two_words();
  EXPECT_THAT(attention_terminal(picture),
              HasSubstr("layer 0, head 0\na cat   <sat>\n  . *       @ \n: : -         \n"));
  AttentionPicture many = picture;
  for (int i = 0; i < 4; ++i) many.maps.push_back(picture.maps[1]);
  EXPECT_THAT(attention_terminal(many, {.width = 40}), HasSubstr("\n\n<sat>\n    @ \n"));
}

TEST(OverImage, TheTerminalShowsBlocksOfItsColors) {
  const AttentionPicture token = over_image(patches(), 4);
  const std::string plain = attention_terminal(token);
  EXPECT_THAT(plain, HasSubstr("layer 0, head 0\n    @ \n      \n"));
  const std::string colored = attention_terminal(token, {.color = true});
  EXPECT_THAT(colored, HasSubstr("\x1b[48;2;100;70;200m  "));  // lit
  EXPECT_THAT(colored, HasSubstr("\x1b[48;2;13;6;24m  "));     // (1, 0), dark
}

}  // namespace
}  // namespace heed
