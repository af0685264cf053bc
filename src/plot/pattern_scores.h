// How much of a head's attention follows a simple pattern, for finding heads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/plot/picture.h"

namespace heed::plot {

/// Returns, for each pattern, the mean over the queries that can follow it of the weight on its keys:
/// `previous` and `next` token, the `first` one, the `same` position, other positions with the same token
/// (`repeat`), and `induction`: the token after an earlier occurrence of the query's token (Olsson et al.
/// 2022, "In-context learning and induction heads"). For maps with other queries than keys, only `first`.
/// Last comes `focus`: the mean of the largest weight on a key that is neither first, last nor the query
/// itself.
std::vector<std::pair<std::string, double>> pattern_scores(const AttentionMap& map,
                                                           const AttentionTokens& tokens);

}  // namespace heed::plot
