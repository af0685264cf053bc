// Attention in the terminal, as SVG, JSON and NumPy array: structure, alignment, values and escapes.
#include <expat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "heed/text/unicode.h"
#include "plot/color.h"
#include "plot/labels.h"
#include "plot/sample.h"
#include "reference/error.h"

namespace heed {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Removes the escape sequences that set colors, and fails on any other escape.
std::string without_color(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    const std::size_t end = line.find('m', i);
    EXPECT_EQ(line.substr(i, end - i).find_first_not_of("\x1b[;0123456789"), std::string::npos);
    i = end;
  }
  return out;
}

/// Returns whether `text` is a well-formed XML document.
::testing::AssertionResult well_formed(const std::string& text) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate("UTF-8"),
                                                                            XML_ParserFree);
  if (XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE) == XML_STATUS_OK)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << XML_ErrorString(XML_GetErrorCode(parser.get())) << " in line "
                                       << XML_GetCurrentLineNumber(parser.get());
}

TEST(Terminal, EveryRowOfABlockHasTheSameWidth) {
  for (const bool color : {false, true}) {
    for (const int width : {40, 60, 100, 200}) {
      const auto lines = lines_of(attention_terminal(nasty_picture(), {width, color}));
      std::size_t block = 0;
      int expected = -1;
      // The first lines are the title, an empty line, and the map's name; the last line is the legend.
      for (std::size_t i = 3; i + 1 < lines.size(); ++i) {
        if (lines[i].empty()) {
          expected = -1;
          ++block;
          continue;
        }
        const int got = display_width(without_color(lines[i]));
        if (expected < 0) expected = got;
        EXPECT_EQ(got, expected) << "width " << width << " block " << block << ": " << lines[i];
        EXPECT_LE(got, width);
      }
      EXPECT_GT(block, 0u);
    }
  }
}

TEST(Terminal, ShadesFollowTheWeights) {
  AttentionPicture picture = one_map({"a", "b"}, {"x", "y", "z"}, {0.0f, 0.5f, 1.0f, 0.09f, 0.91f, 0.1f});
  const auto lines = lines_of(attention_terminal(picture));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "cross-attention, layer 0, mean of heads");
  EXPECT_EQ(lines[1], "  x   y   z   ");
  EXPECT_EQ(lines[2], "a     +++ @@@ ") << "0 is blank, a half is the sixth of ten shades, 1 the last";
  EXPECT_EQ(lines[3], "b     @@@ ... ");
  EXPECT_EQ(lines[5], "0 [ .:-=+*#%@] 1   rows: queries, columns: keys");
}

TEST(Terminal, ColorsFollowTheWeights) {
  AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.25f, 0.5f});
  const auto lines = lines_of(attention_terminal(picture, {80, true}));
  const plot::Rgb half = plot::terminal_shade(0.5, false), full = plot::terminal_shade(1.0, false);
  std::ostringstream expected;
  expected << "a \x1b[48;2;" << int{half.r} << ";" << int{half.g} << ";" << int{half.b} << "m    \x1b[48;2;"
           << int{full.r} << ";" << int{full.g} << ";" << int{full.b} << "m    \x1b[0m";
  EXPECT_EQ(lines.at(2), expected.str());
  const std::string light = attention_terminal(picture, {80, true, true});
  expected.str("");
  expected << "\x1b[48;2;" << int{plot::shade(1.0).r} << ";";
  EXPECT_NE(light.find(expected.str()), light.npos) << "on a light terminal, the largest weight is dark";
}

TEST(Terminal, ZerosRecedeOnDarkAndOnLight) {
  const auto sum = [](plot::Rgb color) { return color.r + color.g + color.b; };
  EXPECT_LT(sum(plot::terminal_shade(0, false)), 3 * 32);
  EXPECT_GT(sum(plot::terminal_shade(0, true)), 3 * 245);
  for (const double sign : {1.0, -1.0}) {
    for (int i = 1; i <= 10; ++i) {
      SCOPED_TRACE(sign * i);
      const double before = sign * (i - 1) / 10, value = sign * i / 10;
      EXPECT_GT(sum(plot::terminal_shade(value, false)), sum(plot::terminal_shade(before, false)));
      EXPECT_LT(sum(plot::terminal_shade(value, true)), sum(plot::terminal_shade(before, true)));
    }
  }
  for (const bool light : {false, true}) {
    const plot::Rgb above = plot::terminal_shade(0.5, light), below = plot::terminal_shade(-0.5, light);
    EXPECT_GT(above.b, above.r) << "blue";
    EXPECT_GT(below.r, below.b) << "orange";
  }
}

TEST(Terminal, LongColumnLabelsRunDownwards) {
  AttentionPicture picture =
      one_map({"q"}, {"quietly", "猫", "e\u0301a", "extraordinarily-long"}, {1, 0, 0, 0});
  const auto lines = lines_of(attention_terminal(picture, {40, false}));
  EXPECT_EQ(lines.at(1), "           e  ");
  EXPECT_EQ(lines.at(8), "  q        d  ") << "labels stand on the map";
  EXPECT_EQ(lines.at(13), "  l     e\u0301  i  ");
  EXPECT_EQ(lines.at(14), "  y  猫 a  …  ");
}

TEST(Terminal, WideMapsGoOnInFurtherBlocks) {
  AttentionPicture picture = sample_picture(50, 50);
  const std::string text = attention_terminal(picture, {60, false});
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 60);
  EXPECT_EQ(count(text, "\nq49 "), 8u) << "each of the two blocks of the four maps repeats the rows";
}

TEST(Svg, IsWellFormedAndHasAllCells) {
  const AttentionPicture picture = sample_picture(7, 5);
  const std::string svg = attention_svg(picture);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count(svg, "<title>"), picture.maps.size() * 7 * 5);
  for (const AttentionMap& map : picture.maps)
    EXPECT_EQ(count(svg, std::string(">") + plot::head_title(map) + "<"), 1u);
  EXPECT_EQ(count(svg, ">q0<"), 2u) << "row labels stand once for each row of panels, here two layers";
  EXPECT_EQ(count(svg, ">k0<"), 2u) << "column labels stand over each panel of the first row";
  EXPECT_EQ(count(svg, "http"), 1u) << "nothing but the name space";
}

/// Weights and norms of two heads of two layers, and the rollout of each layer: numbers of three units.
AttentionPicture picture_of_measures() {
  AttentionPicture picture = sample_picture(2, 2);
  const std::vector<AttentionMap> weights = picture.maps;
  for (AttentionMap map : weights) {
    map.measure = "norms";
    for (float& x : map.weights) x *= 1000;
    picture.maps.push_back(map);
  }
  for (const std::int64_t layer : {0, 1}) {
    AttentionMap map = weights[0];
    map.measure = "rollout";
    map.layer = layer;
    map.head = AttentionMap::kMeanOfHeads;
    map.weights = {0.5f, -0.25f, 0, 0.125f};
    picture.maps.push_back(map);
  }
  return picture;
}

TEST(Svg, EachMeasureHasItsOwnScaleLegendAndBlock) {
  const AttentionPicture picture = picture_of_measures();
  const std::string svg = attention_svg(picture);
  EXPECT_TRUE(well_formed(svg));
  for (const char* title : {"weights", "value-weighted norms", "rollout"})
    EXPECT_EQ(count(svg, std::string(">cross-attention, ") + title + "<"), 1u) << "once per block";
  EXPECT_EQ(count(svg, ">4 \u00A0weights<"), 1u);
  EXPECT_EQ(count(svg, ">4e+03 \u00A0value-weighted norms<"), 1u);
  EXPECT_EQ(count(svg, ">0.5 \u00A0rollout<"), 1u);
  EXPECT_EQ(count(svg, ">−0.5<"), 1u) << "where the scale with negative numbers begins";
  EXPECT_EQ(count(svg, ">0<"), 2u);
  EXPECT_EQ(count(svg, ">1.1<"), 2u) << "captions of narrow panels are short, and never cut";
  EXPECT_EQ(count(svg, ">to 1<"), 1u);
  EXPECT_EQ(count(svg, "…"), 0u);
  const std::string darkest = std::string("fill=\"") + plot::hex(plot::shade(1.0)) + "\"><title>";
  EXPECT_EQ(count(svg, darkest), 4u) << "the largest of each measure; the rollout's stands in two layers";
}

TEST(Terminal, EachMeasureHasItsOwnScaleAndLegend) {
  const std::string text = attention_terminal(picture_of_measures());
  EXPECT_EQ(count(text, "@"), 3u * (2 + 2 + 2) + 3u)
      << "two numbers of each measure are at least 9/10 of its largest; each legend has the shade once";
  const auto lines = lines_of(text);
  ASSERT_GE(lines.size(), 4u);
  const std::vector<std::string> tail(lines.end() - 4, lines.end());
  EXPECT_EQ(tail, (std::vector<std::string>{"0 [ .:-=+*#%@] 4   weights",
                                            "0 [ .:-=+*#%@] 4e+03   value-weighted norms",
                                            "0 [ .:-=+*#%@] 0.5   rollout", "rows: queries, columns: keys"}));
}

/// The last place where a line of text of 11 pixels may end, by the average width of its characters.
TEST(Svg, LegendsFitInTheNarrowestFigure) {
  for (const char* measure : {"weights", "gradient"}) {
    AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, -0.00012345f});
    picture.maps[0].measure = measure;
    if (std::string(measure) == "gradient") picture.maps.push_back(sample_picture(1, 2).maps[0]);
    const std::string svg = attention_svg(picture, {.width = 100});
    const double box = std::stod(svg.substr(svg.find("viewBox=\"0 0 ") + 13));
    for (std::size_t at = svg.find("font-size=\"11\""); at != std::string::npos;) {
      at = svg.find("<text x=\"", at);
      if (at == std::string::npos) break;
      const double x = std::stod(svg.substr(at + 9));
      const std::size_t begin = svg.find('>', at) + 1, end = svg.find('<', begin);
      EXPECT_LE(x + 6 * display_width(svg.substr(begin, end - begin)), box) << svg.substr(begin, end - begin);
      at = end;
    }
  }
}

TEST(Svg, TooltipsGiveTokensAndWeights) {
  const std::string svg =
      attention_svg(one_map({"le", "chat"}, {"the", "cat"}, {0.75f, 0.25f, 0.125f, 0.875f}));
  EXPECT_EQ(count(svg, "<title>le → the: 0.750</title>"), 1u);
  EXPECT_EQ(count(svg, "<title>chat → cat: 0.875</title>"), 1u);
  const std::string darkest = plot::hex(plot::shade(1.0));
  const std::size_t cell = svg.find("chat → cat");
  EXPECT_EQ(svg.rfind(std::string("fill=\"") + darkest + "\"", cell), svg.rfind("fill=", cell))
      << "the largest weight is darkest";
}

TEST(Svg, NamesTheModelUnderTheTitle) {
  AttentionPicture picture = sample_picture(2, 2);
  const std::string without = attention_svg(picture);
  picture.model.name = "gpt2 <new>";
  const std::string svg = attention_svg(picture);
  EXPECT_THAT(svg, testing::HasSubstr(">gpt2 &lt;new&gt;</text>"));
  EXPECT_GT(svg.find(">gpt2 &lt;new&gt;<"), svg.find("font-weight"));
  EXPECT_THAT(without, testing::Not(testing::HasSubstr("gpt2")));
}

TEST(Svg, EscapesTokens) {
  AttentionPicture picture = nasty_picture();
  const std::string svg = attention_svg(picture);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count(svg, "</script>"), 0u);
  EXPECT_GT(count(svg, "&lt;/script&gt;"), 0u);
  EXPECT_EQ(count(svg, "&amp;amp;"), 42u) << "in 20 tooltips as a query, in 20 as a key, and in two labels";
  EXPECT_GT(count(svg, "␛[31m"), 0u);
  EXPECT_FALSE(first_invalid_utf8(svg).has_value());
}

TEST(Svg, RefusesWhatNoViewerHandles) {
  EXPECT_EQ(
      error_of([] { attention_svg(sample_picture(200, 200)); }),
      "attention picture: expected at most 100000 cells in an SVG or PDF, got 160000 (choose fewer layers, "
      "heads, queries or keys, or write PNG or HTML)");
}

TEST(Json, HoldsTokensAndEveryWeight) {
  AttentionPicture picture = nasty_picture();
  picture.maps[0].weights[1] = std::nanf("");
  const nlohmann::json read = nlohmann::json::parse(attention_json(picture));
  EXPECT_EQ(read["title"], picture.title);
  const AttentionMap& map = picture.maps[0];
  EXPECT_EQ(read["maps"][0]["name"], map.name);
  EXPECT_TRUE(read["maps"][0]["head"].is_null());
  EXPECT_EQ(read["tokens"]["cross"]["keys"][1], "\x1b[31m") << "tokens as they are";
  EXPECT_TRUE(read["maps"][0]["weights"][0][1].is_null());
  for (std::size_t q = 0; q < static_cast<std::size_t>(map.queries); ++q) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(map.keys); ++k) {
      const float weight = map.weights[q * static_cast<std::size_t>(map.keys) + k];
      if (std::isfinite(weight)) {
        EXPECT_EQ(read["maps"][0]["weights"][q][k].get<float>(), weight) << "every digit of a float";
      }
    }
  }
}

TEST(Npy, HoldsEveryWeightInOrder) {
  const AttentionPicture picture = sample_picture(3, 5);
  const std::string npy = attention_npy(picture);
  ASSERT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  const std::size_t header = static_cast<unsigned char>(npy[8]) + 256u * static_cast<unsigned char>(npy[9]);
  EXPECT_EQ((10 + header) % 64, 0u);
  const std::string text = npy.substr(10, header);
  EXPECT_EQ(text.rfind("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3, 5), }", 0), 0u);
  EXPECT_EQ(text.back(), '\n');
  ASSERT_EQ(npy.size(), 10 + header + 4 * 3 * 5 * sizeof(float));
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_EQ(std::memcmp(npy.data() + 10 + header + m * 60, picture.maps[m].weights.data(), 60), 0);
  }
}

TEST(Npy, WantsOneSize) {
  AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, 0.5f});
  picture.tokens["encoder"] = {{"x", "y"}, {"x", "y"}};
  picture.maps.push_back({"encoder.layers.0.self_attn", "encoder", 0, 0, 2, 2, {1, 0, 0, 1}});
  EXPECT_EQ(error_of([&] { attention_npy(picture); }),
            "attention picture: expected maps of one size for NPY, got 1 x 2 (decoder.layers.0.cross_attn) "
            "and 2 x 2 "
            "(encoder.layers.0.self_attn) (choose one kind)");
}

TEST(Picture, BadInputIsNamed) {
  AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, 0.5f});
  EXPECT_EQ(error_of([&] {
              attention_terminal(picture, {39, false});
            }),
            "attention picture: expected a width of at least 40 columns, got 39");
  picture.maps[0].weights.pop_back();
  EXPECT_EQ(error_of([&] { attention_svg(picture); }),
            "attention picture: expected 2 weights in decoder.layers.0.cross_attn, got 1");
  picture.maps[0].keys = 1;
  EXPECT_EQ(error_of([&] { attention_json(picture); }),
            "attention picture: expected decoder.layers.0.cross_attn to be 1 x 2 as its tokens and not "
            "empty, got 1 x 1");
  picture.maps[0].kind = "self";
  EXPECT_EQ(error_of([&] { attention_html(picture); }),
            "attention picture: no tokens given for kind `self` of decoder.layers.0.cross_attn");
  picture.maps.clear();
  EXPECT_EQ(error_of([&] { attention_npy(picture); }),
            "attention picture: no maps (choose other layers, heads or kinds)");
}

TEST(Picture, WeightsThatAreNoNumbersAreShownAsSuch) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const AttentionPicture picture = one_map({"a"}, {"x", "y", "z"}, {nan, inf, 0.5f});
  EXPECT_EQ(lines_of(attention_terminal(picture)).at(2), "a ?   ?   @@@ ");
  EXPECT_TRUE(well_formed(attention_svg(picture)));
  const AttentionPicture zeros = one_map({"a"}, {"x"}, {0});
  EXPECT_EQ(lines_of(attention_terminal(zeros)).at(2), "a     ");
}

// Uses the lightness of CIE L*, a different space from the one in which the colors are defined.
TEST(Color, LightnessFallsEvenly) {
  const auto lightness = [](plot::Rgb c) {
    const auto linear = [](std::uint8_t v) {
      const double s = v / 255.0;
      return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
    };
    const double y = 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
    return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
  };
  const double first = lightness(plot::shade(0)), last = lightness(plot::shade(1));
  EXPECT_GT(first, 96);
  EXPECT_LT(last, 25);
  for (int i = 1; i <= 20; ++i) {
    const double step = lightness(plot::shade((i - 1) / 20.0)) - lightness(plot::shade(i / 20.0));
    EXPECT_GT(step, 0.5 * (first - last) / 20) << i;
    EXPECT_LT(step, 1.6 * (first - last) / 20) << i;
  }
}

TEST(Labels, NothingInATokenCanHarm) {
  EXPECT_EQ(plot::visible(std::string("a\0\x1b\n\x7f", 5)), "a␀␛↵␡");
  EXPECT_EQ(plot::visible("\u202Eabc\u2066"), "abc");
  EXPECT_EQ(plot::visible("\xC2\x9B"
                          "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(plot::visible("  "), "␣␣");
  EXPECT_EQ(plot::visible("\u202F"), "␣");
  EXPECT_EQ(plot::visible(""), "∅");
  EXPECT_EQ(plot::visible("\xff"
                          "a"),
            "\\xffa");
  EXPECT_EQ(plot::shorten("猫猫猫", 5), "猫猫…");
  EXPECT_EQ(plot::shorten("abc", 3), "abc");
  using Lines = std::vector<std::string>;
  EXPECT_EQ(plot::wrap("a bc def  g", 4, 3), (Lines{"a bc", "def ", "g"}));
  EXPECT_EQ(plot::wrap("one two three four", 5, 2), (Lines{"one", "two …"}));
  EXPECT_EQ(plot::wrap("uninterrupted text", 6, 3), (Lines{"unint…", "text"}));
}

}  // namespace
}  // namespace heed
