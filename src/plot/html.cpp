// The HTML page: fixed parts (page/), packs of numbers in elements of their own, and what describes them, a
// JSON value inside a script element. The page decodes a map when it is shown.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/labels.h"
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

namespace {

std::string filled_page(const json& data, const std::string& packs, const std::string& title) {
  std::string page(plot::kPageHtml);
  // From the end to the beginning, so that no mark in what was filled in is found before the page's own.
  fill(page, "@JS@", std::string(plot::kPageScript));
  fill(page, "@DATA@", script_safe(data));
  fill(page, "@PACKS@", packs);
  fill(page, "@CSS@", std::string(plot::kPageCss));
  fill(page, "@TITLE@", plot::escape_markup(title));
  return page;
}

json parsed(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded())
    throw Error("attention picture: expected what training_frame() gives, got other text");
  return value;
}

}  // namespace

std::string attention_html(const AttentionPicture& picture) {
  plot::check_picture(picture);
  const auto [data, packs] = fitting_data(picture);
  return filled_page(data, packs, data["title"].get<std::string>());
}

std::string attention_frame(const AttentionPicture& picture) {
  plot::check_picture(picture);
  plot::PageData data = plot::page_data(picture, 8);
  json packs = json::array();
  for (const plot::PagePack& pack : data.packs) packs.push_back(plot::pack_numbers(pack.numbers, pack.bits));
  return json{{"data", std::move(data.description)}, {"packs", std::move(packs)}}.dump(
      -1, ' ', true, json::error_handler_t::replace);
}

std::string training_frame(std::int64_t step, std::optional<double> loss,
                           const std::vector<std::string>& pictures) {
  json frame{{"step", step}, {"texts", json::array()}};
  if (loss) frame["loss"] = *loss;
  for (const std::string& picture : pictures) frame["texts"].push_back(parsed(picture));
  return frame.dump();
}

std::string training_html(const std::vector<std::string>& frames) {
  json data{{"frames", json::array()}};
  std::string title;
  std::size_t texts = 0;
  for (const std::string& text : frames) {
    json frame = parsed(text);
    const bool fits = frame.is_object() && frame.value("step", json()).is_number_integer() &&
                      frame.contains("texts") && frame["texts"].is_array() && !frame["texts"].empty();
    if (!fits || (texts > 0 && frame["texts"].size() != texts))
      throw Error("attention picture: expected frames of training_frame() with the same texts, got others");
    texts = frame["texts"].size();
    for (const json& one : frame["texts"]) {
      if (!one.is_object() || !one.contains("data") || !one["data"].is_object() || !one.contains("packs"))
        throw Error("attention picture: expected pictures of attention_frame(), got others");
      title = one["data"].value("title", "");
    }
    data["frames"].push_back(std::move(frame));
  }
  if (data["frames"].empty()) throw Error("attention picture: expected at least one frame, got none");
  return filled_page(data, "", "Attention while training: " + title);
}

}  // namespace heed
