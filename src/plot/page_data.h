// What the page shows, as JSON: tokens, maps, scores, and for every block of numbers its pack's index. A page
// in a file holds all packs; a server makes each when it is asked for.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "heed/plot/picture.h"

namespace heed::plot {

/// The numbers of a pack, which pack_numbers() turns into its text.
struct PagePack {
  std::span<const float> numbers;
  int bits = 16;
};

struct PageData {
  nlohmann::json description;
  std::vector<PagePack> packs;  ///< their numbers are those of the picture
};

/// Describes the picture, which must outlive the result. Maps are rounded to `bits`, queries and keys to 8.
PageData page_data(const AttentionPicture& picture, int bits);

}  // namespace heed::plot
