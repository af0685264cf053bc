// Selects maps and writes pictures.
#include "cli/results/pictures.h"

#include <algorithm>

#include "cli/cli.h"
#include "heed/files/file.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed::cli {

std::vector<std::int64_t> chosen_heads(const MapChoice& choice, std::int64_t count) {
  std::vector<std::int64_t> heads = choice.heads;
  for (std::int64_t h = 0; choice.heads.empty() && h < count; ++h) heads.push_back(h);
  for (const std::int64_t head : heads) {
    if (head >= 0 && head < count) continue;
    throw UsageError("--heads: expected heads below " + std::to_string(count) + ", got " +
                     std::to_string(head));
  }
  return heads;
}

void add_maps(AttentionPicture& picture, const std::string& tap, const std::string& kind, std::int64_t layer,
              const Tensor& weights, const MapChoice& choice, const std::string& measure) {
  AttentionMap map;
  map.name = tap.substr(0, tap.rfind(".weights"));
  map.kind = kind;
  map.layer = layer;
  map.measure = measure;
  map.queries = weights.size(1);
  map.keys = weights.size(2);
  if (choice.mean_of_heads || choice.max_of_heads) {
    map.head = choice.mean_of_heads ? AttentionMap::kMeanOfHeads : AttentionMap::kMaxOfHeads;
    map.weights = (choice.mean_of_heads ? mean(weights, 0) : max(weights, 0)).to_vector<float>();
    picture.maps.push_back(std::move(map));
    return;
  }
  for (const std::int64_t head : chosen_heads(choice, weights.size(0))) {
    map.head = head;
    map.weights = slice(weights, 0, head, head + 1).to_vector<float>();
    picture.maps.push_back(map);
  }
}

void check_picture_file(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  const auto known = {".html", ".svg", ".pdf", ".png", ".json", ".npy"};
  if (std::find(known.begin(), known.end(), ending) == known.end()) {
    throw UsageError(file.string() +
                     ": expected a file ending in .html, .svg, .pdf, .png, .json or .npy, got \"" + ending +
                     "\"");
  }
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) {
    throw Error(file.string() + ": folder " + folder.string() + " not found (create it first)");
  }
}

std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index) {
  return file.parent_path() /
         (file.stem().string() + "-" + std::to_string(index + 1) + file.extension().string());
}

void write_picture(const AttentionPicture& picture, const std::filesystem::path& file,
                   const FigureStyle& style) {
  const std::string ending = file.extension().string();
  if (ending == ".html") return write_file(file, attention_html(picture));
  if (ending == ".svg") return write_file(file, attention_svg(picture, style));
  if (ending == ".pdf") return write_file(file, attention_pdf(picture, style));
  if (ending == ".png") return write_file(file, attention_png(picture, style));
  if (ending == ".json") return write_file(file, attention_json(picture));
  write_file(file, attention_npy(picture));
}

}  // namespace heed::cli
