// What the page shows, as JSON: tokens, maps, scores, and for every block of numbers its pack's index. A pack
// is rounded to few bits, compressed, and in base64. A page in a file holds all packs; a server makes each
// when it is asked for.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/plot/picture.h"

namespace heed::plot {

/// The numbers of a pack, which pack_numbers() turns into its text.
struct PagePack {
  std::span<const float> numbers;
  int bits = 16;
};

/// A zlib stream of the bytes, in base64: what the page's inflated() reads.
std::string deflated_base64(std::string_view bytes);

struct NumberRange {
  float largest = 0;       ///< magnitude
  bool has_signs = false;  ///< codes count from -largest, else from 0
};
/// Of the finite numbers.
NumberRange range_of(std::span<const float> numbers);

/// Rounds each number to one of 2^bits - 1 steps of the largest magnitude (one fewer, so that 0 is exact, if
/// any is negative), and returns the deflated codes in base64. Codes of up to 8, 16 or 24 bits take one, two
/// or three bytes: all high bytes come first, then those below. What is not finite becomes 0.
std::string pack_numbers(std::span<const float> numbers, int bits);

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
