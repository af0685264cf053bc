// What the page shows, as JSON: tokens, maps, scores, and for every block of numbers its pack's index. A page
// in a file holds all packs; a server makes each when it is asked for.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
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

/// Describes the picture, which must outlive the result. Maps are rounded to `bits`, queries and keys to 24.
PageData page_data(const AttentionPicture& picture, int bits);

/// Returns, for each pattern, the mean over the queries that can follow it of the weight on its keys:
/// `previous` and `next` token, the `first` one, the `same` position, other positions with the same token
/// (`repeat`), and `induction`: the token after an earlier occurrence of the query's token (Olsson et al.
/// 2022, "In-context learning and induction heads"). For maps with other queries than keys, only `first`.
/// Then comes `focus`: the mean of the largest weight on a key that is neither first, last nor the query
/// itself; and `content`, the measure of a head worth seeing: the mean over the queries of the largest weight
/// on a word (no special token, and at least three letters if some token has as many) that is neither the
/// first token nor, in self-attention, the query itself or a neighbor of it; in self-attention less the mean
/// weight at the same distance.
std::vector<std::pair<std::string, double>> pattern_scores(const AttentionMap& map,
                                                           const AttentionTokens& tokens);

}  // namespace heed::plot
