// The HTML page: a fixed page (attention_page.html) and its data, a JSON value inside a script element.
// Weights are bytes in base64, so that many heads over long texts stay small; the page decodes a map when it
// is shown.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "heed/inspect/picture.h"
#include "inspect/attention_page.h"
#include "inspect/colour.h"
#include "inspect/labels.h"

namespace heed {
namespace {

using nlohmann::json;

std::string base64(const std::vector<std::uint8_t>& bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string palette() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 256; ++i) {
    const inspect::Rgb colour = inspect::shade(i / 255.0);
    bytes.insert(bytes.end(), {colour.r, colour.g, colour.b});
  }
  return base64(bytes);
}

json visible_tokens(const std::vector<std::string>& tokens) {
  json list = json::array();
  for (const std::string& token : tokens) list.push_back(inspect::visible(token));
  return list;
}

json map_data(const AttentionMap& map) {
  float largest = 0;
  for (const float weight : map.weights) {
    if (std::isfinite(weight)) largest = std::max(largest, weight);
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(map.weights.size());
  for (const float weight : map.weights) {
    const bool shown = std::isfinite(weight) && largest > 0;
    bytes.push_back(
        static_cast<std::uint8_t>(shown ? std::lround(255 * std::max(0.0f, weight / largest)) : 0));
  }
  json head = map.head == AttentionMap::kMeanOfHeads ? json() : json(map.head);
  return {{"name", inspect::visible(map.name)},
          {"layer", map.layer},
          {"head", std::move(head)},
          {"largest", largest},
          {"weights", base64(bytes)}};
}

json page_data(const AttentionPicture& picture) {
  json kinds = json::array();
  for (const AttentionMap& map : picture.maps) {
    auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const json& k) { return k["kind"] == map.kind; });
    if (kind == kinds.end()) {
      const AttentionTokens& tokens = inspect::tokens_of(picture, map);
      kinds.push_back({{"kind", map.kind},
                       {"title", inspect::kind_title(map.kind)},
                       {"queries", visible_tokens(tokens.queries)},
                       {"keys", visible_tokens(tokens.keys)},
                       {"maps", json::array()}});
      kind = kinds.end() - 1;
    }
    (*kind)["maps"].push_back(map_data(map));
  }
  return {{"title", picture.title.empty() ? "Attention" : inspect::visible(picture.title)},
          {"palette", palette()},
          {"kinds", std::move(kinds)}};
}

/// Returns JSON in which no character can end the script element or the string.
std::string script_safe(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

void fill(std::string& page, std::string_view mark, const std::string& text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string attention_html(const AttentionPicture& picture) {
  inspect::check_picture(picture);
  const json data = page_data(picture);
  std::string page(inspect::kAttentionPage);
  fill(page, "@TITLE@", inspect::escape_markup(data["title"].get<std::string>()));
  fill(page, "@DATA@", script_safe(data));
  return page;
}

}  // namespace heed
