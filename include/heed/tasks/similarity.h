// Similarity of vectors, and nearest-neighbor search: semantic search over the vectors of embed().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

enum class Similarity : std::uint8_t {
  cosine,  ///< a . b / (|a| |b|); 0 if a or b is all zeros
  dot,     ///< a . b
};

/// Parses cosine or dot; an empty name means cosine. Throws Error for any other name.
Similarity similarity_named(std::string_view name);

/// Returns the similarities f32 [N, M] of the rows of a [N, D] and b [M, D]. Throws Error for other shapes.
Tensor similarity(const Tensor& a, const Tensor& b, Similarity kind = Similarity::cosine);

/// A row of the searched vectors.
struct Match {
  std::size_t row = 0;
  double score = 0;
};

/// Returns for each row of `queries` [Q, D] the `top_k` most similar rows of `vectors` [M, D], the most
/// similar first; in a tie, the first row. Throws Error for other shapes.
std::vector<std::vector<Match>> nearest(const Tensor& queries, const Tensor& vectors, std::int64_t top_k,
                                        Similarity kind = Similarity::cosine);

/// Which of the texts that are near to a query are taken as its hard negatives: near, and yet wrong.
struct HardNegatives {
  std::int64_t count = 3;        ///< at most, for each query; the nearest are taken
  std::int64_t range_min = 0;    ///< the nearest so many are passed over, as they may be right
  std::int64_t range_max = 100;  ///< only the nearest so many are looked at
  double margin = 0;  ///< a negative is less similar to the query than its positive by at least this
};

/// Returns for each row of `queries` [Q, D] its hard negatives among the rows of `vectors` [M, D], the most
/// similar first; in a tie, the first row. The rows `right[q]` belong to query q: they are not counted in the
/// ranges and never taken, and the first is its positive. Throws Error for other shapes.
std::vector<std::vector<Match>> hard_negatives(const Tensor& queries, const Tensor& vectors,
                                               std::span<const std::vector<std::size_t>> right,
                                               const HardNegatives& options = {},
                                               Similarity kind = Similarity::cosine);

}  // namespace heed
