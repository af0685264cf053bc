// The HTML page: the data can be read back unchanged, and no token ends the element that contains it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/inspect/picture.h"
#include "inspect/colour.h"
#include "inspect/labels.h"
#include "inspect/sample.h"

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

std::vector<int> decode(const std::string& base64) {
  std::vector<int> bytes;
  int bits = 0, held = 0;
  for (const char c : base64) {
    if (c == '=') break;
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits = bits << 6 | static_cast<int>(digits.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(bits >> held & 255);
  }
  return bytes;
}

TEST(Page, DataComeBackToA255thOfTheLargest) {
  for (const std::int64_t keys : {1, 4, 5, 6}) {
    const AttentionPicture picture = sample_picture(7, keys);
    const nlohmann::json data = data_of(attention_html(picture));
    ASSERT_EQ(data["kinds"].size(), 1u);
    ASSERT_EQ(data["kinds"][0]["maps"].size(), 4u);
    for (std::size_t m = 0; m < 4; ++m) {
      const nlohmann::json& map = data["kinds"][0]["maps"][m];
      const float largest = map["largest"];
      EXPECT_EQ(largest, picture.maps[m].weights.back());
      EXPECT_EQ(map["layer"], picture.maps[m].layer);
      EXPECT_EQ(map["head"], picture.maps[m].head);
      const std::vector<int> bytes = decode(map["weights"]);
      ASSERT_EQ(bytes.size(), picture.maps[m].weights.size());
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        EXPECT_NEAR(bytes[i] / 255.0f * largest, picture.maps[m].weights[i], largest / 500);
      }
    }
  }
}

TEST(Page, TokensCannotEndTheirElement) {
  const AttentionPicture picture = nasty_picture();
  const std::string page = attention_html(picture);
  EXPECT_EQ(occurrences(page, "</script"), 2u) << "the data's and the program's own";
  EXPECT_EQ(occurrences(page, "<script"), 2u);
  EXPECT_EQ(occurrences(page, "alert(1)"), 2u) << "in the title and in the data, both as text";
  EXPECT_EQ(occurrences(page, "<title>&lt;/title&gt;&lt;script&gt;alert(1)"), 1u);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  const nlohmann::json data = data_of(page);
  for (std::size_t i = 0; i < picture.tokens.at("cross").keys.size(); ++i) {
    EXPECT_EQ(data["kinds"][0]["keys"][i], inspect::visible(picture.tokens.at("cross").keys[i]));
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
  const nlohmann::json data = data_of(attention_html(picture));
  ASSERT_EQ(data["kinds"].size(), 2u);
  EXPECT_EQ(data["kinds"][0]["title"], "cross-attention");
  EXPECT_TRUE(data["kinds"][0]["maps"][0]["head"].is_null());
  EXPECT_EQ(data["kinds"][1]["title"], "encoder self-attention");
  EXPECT_EQ(decode(data["kinds"][1]["maps"][0]["weights"]), (std::vector<int>{255, 0, 0, 255}));
  const std::vector<int> palette = decode(data["palette"]);
  ASSERT_EQ(palette.size(), 768u);
  EXPECT_EQ(palette[765], inspect::shade(1).r);
  EXPECT_EQ(palette[0], inspect::shade(0).r);
}

}  // namespace
}  // namespace heed
