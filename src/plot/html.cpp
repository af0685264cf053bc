// The HTML page: fixed parts (page/), packs of numbers in elements of their own, and what describes them, a
// JSON value inside a script element. The page decodes a map when it is shown.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/labels.h"
#include "plot/number_packs.h"
#include "plot/page.h"
#include "plot/page_data.h"

namespace heed {
namespace {

using nlohmann::json;

/// Bytes of base64 up to which 16 bits are used, and for all numbers of a page.
constexpr std::size_t kFinePage = 7'000'000, kLargestPage = 42'000'000, kMostNumbers = 60'000'000;

/// The elements of the packs, and the bytes of base64 in them.
std::pair<std::string, std::size_t> elements_of(const std::vector<plot::PagePack>& packs) {
  std::string elements;
  std::size_t size = 0;
  for (std::size_t i = 0; i < packs.size(); ++i) {
    const std::string text = plot::pack_numbers(packs[i].numbers, packs[i].bits);
    size += text.size();
    elements += fmt::format("<script type=\"text/plain\" id=\"pack-{}\">{}</script>\n", i, text);
  }
  return {std::move(elements), size};
}

/// The data of the page with as many bits as fit, and the elements of its packs.
std::pair<json, std::string> fitting_data(const AttentionPicture& picture) {
  std::size_t numbers = 0;
  for (const AttentionMap& map : picture.maps) numbers += map.weights.size();
  for (const int bits : {16, 8, 7, 6}) {
    const std::size_t limit = bits > 8 ? kFinePage : kLargestPage;
    if (numbers > kMostNumbers || numbers * (bits > 8 ? 1 : 0) > 2 * kFinePage) continue;
    plot::PageData data = plot::page_data(picture, bits);
    auto [elements, size] = elements_of(data.packs);
    if (size <= limit) return {std::move(data.description), std::move(elements)};
  }
  throw Error(
      fmt::format("attention picture: expected numbers that fit in a page of 45 MB, got {} (choose fewer "
                  "layers, heads, queries or keys)",
                  numbers));
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
  plot::check_picture(picture);
  const auto [data, packs] = fitting_data(picture);
  std::string page(plot::kPageHtml);
  // From the end to the beginning, so that no mark in what was filled in is found before the page's own.
  fill(page, "@JS@", std::string(plot::kPageScript));
  fill(page, "@DATA@", script_safe(data));
  fill(page, "@PACKS@", packs);
  fill(page, "@CSS@", std::string(plot::kPageCss));
  fill(page, "@TITLE@", plot::escape_markup(data["title"].get<std::string>()));
  return page;
}

}  // namespace heed
