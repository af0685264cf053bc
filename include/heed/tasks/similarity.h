// How alike vectors are, and which of many are most like a query: semantic search over what embed() makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

namespace heed {

enum class Similarity : std::uint8_t {
  cosine,  ///< a . b / (|a| |b|); 0 where a or b is all zeros
  dot,     ///< a . b
};

/// cosine or dot; an empty name is cosine. Throws Error for another.
Similarity similarity_named(std::string_view name);

/// The similarities f32 [N, M] of the rows of a [N, D] and b [M, D]. Throws Error for other shapes.
Tensor similarity(const Tensor& a, const Tensor& b, Similarity kind = Similarity::cosine);

/// A row of the vectors that were searched.
struct Match {
  std::size_t row = 0;
  double score = 0;
};

/// For each row of `queries` [Q, D] the `top_k` rows of `vectors` [M, D] that are most similar, the most
/// similar first, of equal ones the first. Throws Error for other shapes.
std::vector<std::vector<Match>> nearest(const Tensor& queries, const Tensor& vectors, std::int64_t top_k,
                                        Similarity kind = Similarity::cosine);

}  // namespace heed
