// Pictures shared by several tests.
#pragma once

#include <string>
#include <vector>

#include "heed/plot/picture.h"

namespace heed {

/// How often `part` is in `text`.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + part.size())) ++n;
  return n;
}

inline AttentionPicture one_map(const std::vector<std::string>& queries, const std::vector<std::string>& keys,
                                const std::vector<float>& weights) {
  AttentionPicture picture;
  picture.tokens["cross"] = {queries, keys};
  picture.maps.push_back({"decoder.layers.0.cross_attn", "cross", 0, AttentionMap::kMeanOfHeads,
                          static_cast<std::int64_t>(queries.size()), static_cast<std::int64_t>(keys.size()),
                          weights});
  return picture;
}

inline std::string numbered(const char* name, std::int64_t number) {
  return std::string(name).append(std::to_string(number));
}

/// Makes two layers of two heads with tokens q0… and k0…; all weights differ.
inline AttentionPicture sample_picture(std::int64_t queries, std::int64_t keys) {
  AttentionPicture picture;
  picture.title = "sample";
  AttentionTokens& tokens = picture.tokens["cross"];
  for (std::int64_t q = 0; q < queries; ++q) tokens.queries.push_back(numbered("q", q));
  for (std::int64_t k = 0; k < keys; ++k) tokens.keys.push_back(numbered("k", k));
  float value = 0;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t head = 0; head < 2; ++head) {
      AttentionMap map{
          "decoder.layers." + std::to_string(layer) + ".cross_attn", "cross", layer, head, queries, keys, {}};
      for (std::int64_t i = 0; i < queries * keys; ++i) map.weights.push_back(value += 0.25f);
      picture.maps.push_back(map);
    }
  }
  return picture;
}

/// Makes a picture whose tokens try to break out of pages and rows.
inline AttentionPicture nasty_picture() {
  const std::vector<std::string> tokens = {"</script>",
                                           "\x1b[31m",
                                           "\"quoted\" & 'single'",
                                           "&amp;",
                                           "猫が座った",
                                           "e\u0301e\u0301",
                                           "👩‍👩‍👧",
                                           "\u202Eright",
                                           "",
                                           " ",
                                           "\t\n",
                                           "\xff\xfe",
                                           "<!--",
                                           "]]>",
                                           "extraordinarily-long-token-without-an-end",
                                           "สวัสดี",
                                           "\u2028",
                                           "\\u003c",
                                           "@DATA@",
                                           "@TITLE@"};
  std::vector<float> weights(tokens.size() * tokens.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 17) / 17.0f;
  AttentionPicture picture = one_map(tokens, tokens, weights);
  picture.title = "</title><script>alert(1)</script> \x07 \"&\"";
  return picture;
}

}  // namespace heed
