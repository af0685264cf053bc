// The HTML page: the data can be read back unchanged, and no token ends the element that contains it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/color.h"
#include "plot/labels.h"
#include "plot/page_data.h"
#include "plot/sample.h"
#include "reference/error.h"
#include "reference/pack.h"

namespace heed {
namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + part.size())) ++n;
  return n;
}

/// Returns the content of the data element as a browser sees it: everything up to the first end tag.
nlohmann::json data_of(const std::string& page) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(start) + start.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script", begin) - begin));
}

/// Returns the numbers of a block as the page decodes them.
std::vector<float> numbers_of(const std::string& page, const nlohmann::json& block, int bits) {
  const std::string start = "id=\"pack-" + std::to_string(block["pack"].get<int>()) + "\">";
  const std::size_t begin = page.find(start) + start.size();
  const int levels = (1 << bits) - 1, zero = block.contains("signed") ? (levels - 1) / 2 : 0;
  const float factor = block["largest"].get<float>() / static_cast<float>(zero > 0 ? zero : levels);
  std::vector<float> numbers;
  for (const int code : codes_of_pack(page.substr(begin, page.find('<', begin) - begin), bits))
    numbers.push_back(static_cast<float>(code - zero) * factor);
  return numbers;
}

TEST(Page, NumbersComeBackWith16Bits) {
  for (const std::int64_t keys : {1, 4, 5, 6}) {
    AttentionPicture picture = sample_picture(7, keys);
    picture.maps[3].weights[0] = -picture.maps[3].weights[1 % picture.maps[3].weights.size()];
    const std::string page = attention_html(picture);
    const nlohmann::json data = data_of(page);
    EXPECT_EQ(data["bits"], 16);
    ASSERT_EQ(data["kinds"].size(), 1u);
    ASSERT_EQ(data["kinds"][0]["maps"].size(), 4u);
    for (std::size_t m = 0; m < 4; ++m) {
      const nlohmann::json& map = data["kinds"][0]["maps"][m];
      const float largest = map["largest"];
      EXPECT_EQ(largest, picture.maps[m].weights.back());
      EXPECT_EQ(map["layer"], picture.maps[m].layer);
      EXPECT_EQ(map["head"], picture.maps[m].head);
      EXPECT_EQ(map["measure"], "weights");
      EXPECT_EQ(map.contains("signed"), m == 3);
      const std::vector<float> numbers = numbers_of(page, map, 16);
      ASSERT_EQ(numbers.size(), picture.maps[m].weights.size());
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(numbers[i], picture.maps[m].weights[i], largest / 60000);
    }
  }
}

TEST(Page, LargeInputsGetFewerBitsOrAreRefused) {
  AttentionPicture picture;
  std::vector<std::string> tokens(512, "a");
  picture.tokens["encoder"] = {tokens, tokens};
  AttentionMap map{"encoder.layers.0.self_attn", "encoder", 0, 0, 512, 512, std::vector<float>(512 * 512)};
  std::uint32_t random = 1;
  for (float& weight : map.weights)
    weight = static_cast<float>((random = random * 1664525 + 1013904223) >> 8);
  for (std::int64_t head = 0; head < 12; ++head) {
    map.head = head;
    picture.maps.push_back(map);
  }
  const std::string page = attention_html(picture);
  EXPECT_EQ(data_of(page)["bits"], 8) << "3.1 million numbers";
  EXPECT_LT(page.size(), 5'000'000u);
  picture.maps.assign(240, map);
  EXPECT_ERROR(attention_html(picture), "expected numbers that fit in a page of 45 MB");
}

TEST(Page, FindsHeadsByPattern) {
  const AttentionTokens tokens{{"a", "b", "a", "b"}, {"a", "b", "a", "b"}};
  const auto score = [&](const std::vector<float>& weights, const std::string& pattern) {
    const AttentionMap map{"", "decoder", 0, 0, 4, 4, weights};
    for (const auto& [name, value] : plot::pattern_scores(map, tokens)) {
      if (name == pattern) return value;
    }
    return -1.0;
  };
  EXPECT_EQ(score({1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, "previous"), 1);
  EXPECT_EQ(score({1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, "first"), 1);
  EXPECT_EQ(score({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, "same"), 1);
  EXPECT_EQ(score({0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0}, "repeat"), 1);
  // Before the third token, an a, a b followed; before the fourth, a b, an a.
  EXPECT_EQ(score({1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, "induction"), 1);
}

// A head worth seeing looks at words, not at special tokens, the first token or a neighbor.
TEST(Page, MeasuresWeightOnContent) {
  const AttentionTokens tokens{{"[CLS]", "·the", "a", "·film", "[SEP]"},
                               {"[CLS]", "·the", "a", "·film", "[SEP]"}};
  const auto content = [&](std::int64_t key, const std::string& kind) {
    AttentionMap map{"", kind, 0, 0, 5, 5, std::vector<float>(25)};
    for (std::size_t query = 0; query < 5; ++query)
      map.weights[query * 5 + static_cast<std::size_t>(key)] = 1;
    return plot::pattern_scores(map, tokens).back();
  };
  EXPECT_EQ(content(3, "encoder").first, "content");
  EXPECT_DOUBLE_EQ(content(3, "encoder").second, (1 + 2 / 3.0) / 5)
      << "of [CLS] and ·the alone, less a third of the weight at a distance of two";
  EXPECT_DOUBLE_EQ(content(1, "encoder").second, (1 + 2 / 3.0) / 5) << "of ·film and [SEP]";
  for (const int key : {0, 2, 4}) EXPECT_EQ(content(key, "encoder").second, 0) << key;
  EXPECT_EQ(content(3, "cross").second, 1) << "which has no neighbors";
  const std::vector<std::string> words{"one", "two", "three", "four", "five", "six"};
  AttentionMap back{"", "decoder", 0, 0, 6, 6, std::vector<float>(36)};
  for (std::size_t query = 2; query < 6; ++query) back.weights[query * 6 + query - 2] = 1;
  EXPECT_EQ(plot::pattern_scores(back, {words, words}).back().second, 0) << "always the word before the last";
}

/// The masks of a layer whose one head gives weight where `sees(query, key)`.
template <typename Sees>
nlohmann::json masks_of(const std::string& kind, std::int64_t length, const Sees& sees) {
  AttentionPicture picture;
  const std::vector<std::string> tokens(static_cast<std::size_t>(length), "a");
  picture.tokens[kind] = {tokens, tokens};
  AttentionMap map{"", kind, 0, 0, length, length, {}};
  for (std::int64_t i = 0; i < length * length; ++i)
    map.weights.push_back(sees(i / length, i % length) ? 0.5f : 0);
  picture.maps.push_back(map);
  const nlohmann::json data = data_of(attention_html(picture))["kinds"][0];
  return data.contains("masks") ? data["masks"][0]["distances"] : nlohmann::json::array();
}

TEST(Page, KnowsWhichCellsAMaskForbids) {
  const auto causal = [](auto q, auto k) { return k <= q; };
  EXPECT_EQ(masks_of("decoder", 2, causal), nlohmann::json({-1}));
  EXPECT_EQ(masks_of("decoder", 4, causal), nlohmann::json({-3, -2, -1}));
  EXPECT_EQ(masks_of("decoder", 8, [](auto q, auto k) { return k <= q && k > q - 3; }),
            nlohmann::json({-7, -6, -5, -4, -3, -2, -1, 3, 4, 5, 6, 7}))
      << "a window";
  EXPECT_EQ(masks_of("encoder", 8, [](auto q, auto k) { return std::abs(q - k) < 3; }),
            nlohmann::json({-7, -6, -5, -4, -3, 3, 4, 5, 6, 7}));
  EXPECT_EQ(masks_of("decoder", 12, [](auto q, auto k) { return k == q || (k < q && (q - k) % 4 == 0); }),
            nlohmann::json({-11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 5, 6, 7}))
      << "a stride";
}

TEST(Page, AWeightOf0IsNoMask) {
  EXPECT_EQ(masks_of("encoder", 8, [](auto, auto k) { return k == 7; }), nlohmann::json::array())
      << "all look at the end";
  EXPECT_EQ(masks_of("encoder", 8, [](auto q, auto k) { return q != 7 || k != 0; }), nlohmann::json::array())
      << "one cell";
  EXPECT_EQ(masks_of("encoder", 4, [](auto, auto) { return true; }), nlohmann::json::array());
}

TEST(Page, MasksAreOfAllHeadsOfALayer) {
  AttentionPicture picture;
  picture.tokens["decoder"] = {{"a", "b"}, {"a", "b"}};
  for (const std::int64_t layer : {0, 1, 2}) {
    picture.maps.push_back({"", "decoder", layer, 0, 2, 2, {1, 0, 0, 1}});
    picture.maps.push_back({"", "decoder", layer, 1, 2, 2, {1, layer == 2 ? 0.5f : 0, 0.5f, 0.5f}});
  }
  const nlohmann::json masks = data_of(attention_html(picture))["kinds"][0]["masks"];
  ASSERT_EQ(masks.size(), 1u) << "the third layer has none";
  EXPECT_EQ(masks[0], nlohmann::json::parse(R"({"layers": [0, 1], "distances": [-1]})"));
}

TEST(Page, SaysWhatTheModelIsForAndAnswers) {
  AttentionPicture picture = one_map({"a", "b", "c"}, {"x"}, {1, 1, 1});
  EXPECT_FALSE(data_of(attention_html(picture)).contains("model")) << "nothing is known";
  picture.model = {"reviews", "span", {{"b", 0.75f}}, 1};
  picture.tokens["encoder"] = {{"a", "b"}, {"a", "b"}};
  picture.maps.push_back({"", "encoder", 0, 0, 2, 2, {1, 0.5f, 0.5f, 1}});
  nlohmann::json data = data_of(attention_html(picture));
  EXPECT_EQ(data["model"],
            nlohmann::json::parse(R"({"name": "reviews", "task": "span", "answer": [["b", 0.75]]})"));
  EXPECT_EQ(data["kinds"][1]["own"], 1);
  EXPECT_FALSE(data["kinds"][0].contains("own"));
  picture.mask_position = 0;
  EXPECT_EQ(data_of(attention_html(picture))["kinds"][1]["own"], 0);
  picture.tokens["encoder"].query_range = picture.tokens["encoder"].key_range = {1, 3};
  EXPECT_FALSE(data_of(attention_html(picture))["kinds"][1].contains("own")) << "the mask is not in the part";
}

TEST(Page, CarriesFactsVectorsAndCandidates) {
  AttentionPicture picture = sample_picture(2, 3);
  picture.facts.push_back({"cross", 1, 0, {1, 2, 4}, {0.5f, -0.25f}});
  picture.vectors.push_back(
      {"cross", 0, 2, 1, 2, {1, 2, 3, 4, 5, 6, 7, 8}, {1, -1, 2, -2.71828f, 31.25f, -3}});
  picture.candidates["cross"] = {{{"x", 0.5f}}, {{"y", 0.25f}, {"z", 0.125f}}};
  picture.scored = {"x", "y"};
  const std::string page = attention_html(picture);
  const nlohmann::json data = data_of(page), kind = data["kinds"][0];
  EXPECT_FALSE(kind.contains("some_heads"));
  EXPECT_EQ(kind["maps"][2]["norms"], nlohmann::json({1, 2, 4}));
  EXPECT_FLOAT_EQ(kind["maps"][2]["largest_norm"], 4 * picture.maps[2].weights.back());
  EXPECT_EQ(kind["maps"][2]["ablation"], nlohmann::json({0.5, -0.25}));
  EXPECT_FALSE(kind["maps"][0].contains("norms"));
  EXPECT_EQ(kind["candidates"][1][0], nlohmann::json({"y", 0.25}));
  EXPECT_EQ(data["scored"], nlohmann::json({"x", "y"}));
  const std::vector<float> k = numbers_of(page, kind["vectors"][0]["k"], 24);
  ASSERT_EQ(k.size(), 6u);
  EXPECT_NEAR(k[3], -2.71828f, 4e-6);
  EXPECT_NEAR(k[5], -3, 4e-6);
}

TEST(Page, SaysWhatTheModelHas) {
  AttentionPicture picture = sample_picture(2, 3);
  picture.model = {.name = "m", .task = "encoder_decoder", .sizes = {{"cross", {6, 8}}}};
  EXPECT_EQ(data_of(attention_html(picture))["model"]["sizes"]["cross"], nlohmann::json({6, 8}));
}

TEST(Page, SaysWhetherOnlySomeHeadsAreShown) {
  AttentionPicture picture = sample_picture(2, 3);
  picture.facts.push_back({"cross", 0, 7, {1, 2, 4}, {}});
  EXPECT_EQ(data_of(attention_html(picture))["kinds"][0]["some_heads"], true);
}

TEST(Page, TokensCannotEndTheirElement) {
  const AttentionPicture picture = nasty_picture();
  const std::string page = attention_html(picture);
  EXPECT_EQ(occurrences(page, "</script"), 3u) << "of one map, the data, and the program";
  EXPECT_EQ(occurrences(page, "<script"), 3u);
  EXPECT_EQ(occurrences(page, "alert(1)"), 2u) << "in the title and in the data, both as text";
  EXPECT_EQ(occurrences(page, "<title>&lt;/title&gt;&lt;script&gt;alert(1)"), 1u);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  const nlohmann::json data = data_of(page);
  for (std::size_t i = 0; i < picture.tokens.at("cross").keys.size(); ++i) {
    EXPECT_EQ(data["kinds"][0]["keys"][i], plot::visible(picture.tokens.at("cross").keys[i]));
  }
}

TEST(Page, NeedsNoNetwork) {
  const std::string page = attention_html(sample_picture(3, 3));
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "url(", "fetch(", "import("}) {
    EXPECT_EQ(occurrences(page, outside), 0u) << outside;
  }
}

TEST(Page, KeepsKindsApartAndCarriesThePalette) {
  AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, 0.5f});
  picture.tokens["encoder"] = {{"x", "y"}, {"x", "y"}};
  picture.maps.push_back({"encoder.layers.0.self_attn", "encoder", 0, 3, 2, 2, {1, 0, NAN, 1}});
  const std::string page = attention_html(picture);
  const nlohmann::json data = data_of(page);
  ASSERT_EQ(data["kinds"].size(), 2u);
  EXPECT_EQ(data["kinds"][0]["title"], "cross-attention");
  EXPECT_EQ(data["kinds"][0]["maps"][0]["head"], "mean");
  EXPECT_EQ(data["kinds"][1]["title"], "encoder self-attention");
  EXPECT_EQ(numbers_of(page, data["kinds"][1]["maps"][0], 16), (std::vector<float>{1, 0, 0, 1}));
  const std::string palette = decode_base64(data["palette"].get<std::string>()).value();
  ASSERT_EQ(palette.size(), 768u);
  EXPECT_EQ(static_cast<std::uint8_t>(palette[765]), plot::shade(1).r);
  EXPECT_EQ(static_cast<std::uint8_t>(palette[0]), plot::shade(0).r);
}

// A browser runs the page's own script alone; scripts/check-page.sh shows that one does.
TEST(Page, HasAPolicyWithTheHashesOfItsScriptAndStyle) {
  const std::string page = attention_html(sample_picture(3, 4));
  const std::regex policy(
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'sha256-[A-Za-z0-9+/]{43}='; style-src 'sha256-[A-Za-z0-9+/]{43}=';");
  EXPECT_TRUE(std::regex_search(page.substr(0, page.find("<title>")), policy));
  EXPECT_EQ(occurrences(page, "<script>"), 1u);
  EXPECT_EQ(occurrences(page, "<style>"), 1u);
  EXPECT_EQ(occurrences(page, " style=\""), 0u);
}

// Of several steps of training: the pictures stand in the data as they were given.
TEST(Page, OfStepsOfTraining) {
  const std::string picture = attention_frame(sample_picture(3, 4));
  const nlohmann::json data = data_of(training_html(
      {training_frame(0, std::nullopt, {picture, picture}), training_frame(50, 1.5, {picture, picture})}));
  ASSERT_EQ(data["frames"].size(), 2u);
  EXPECT_EQ(data["frames"][0]["step"], 0);
  EXPECT_FALSE(data["frames"][0].contains("loss"));
  EXPECT_EQ(data["frames"][1]["loss"], 1.5);
  const nlohmann::json one = nlohmann::json::parse(picture);
  EXPECT_EQ(data["frames"][1]["texts"], (nlohmann::json{one, one}));
  EXPECT_EQ(one["data"]["bits"], 8);
  EXPECT_ERROR(training_html({}), "expected at least one frame");
  EXPECT_ERROR(training_html({"{"}), "expected what training_frame() gives");
  EXPECT_ERROR(training_html({"[]"}), "expected frames of training_frame()");
  EXPECT_ERROR(training_html({training_frame(0, {}, {picture}), training_frame(1, {}, {picture, picture})}),
               "with the same texts");
  EXPECT_ERROR(training_html({training_frame(0, {}, {"{}"})}), "expected pictures of attention_frame()");
}

}  // namespace
}  // namespace heed
