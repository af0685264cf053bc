// Scores of one query's ranked documents.
#include "heed/score/ranking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace heed {
namespace {

double discounted(std::span<const double> gains, std::size_t depth) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(depth, gains.size()); ++i)
    sum += gains[i] / std::log2(static_cast<double>(i) + 2);
  return sum;
}

}  // namespace

double recall(std::span<const double> gains, std::size_t relevant, std::size_t depth) {
  const auto first = gains.first(std::min(depth, gains.size()));
  const auto found = std::count_if(first.begin(), first.end(), [](double gain) { return gain > 0; });
  return relevant == 0 ? 0 : static_cast<double>(found) / static_cast<double>(relevant);
}

double reciprocal_rank(std::span<const double> gains, std::size_t depth) {
  for (std::size_t i = 0; i < std::min(depth, gains.size()); ++i) {
    if (gains[i] > 0) return 1 / static_cast<double>(i + 1);
  }
  return 0;
}

double ndcg(std::span<const double> gains, std::span<const double> all, std::size_t depth) {
  std::vector<double> sorted(all.begin(), all.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double ideal = discounted(sorted, depth);
  return ideal > 0 ? discounted(gains, depth) / ideal : 0;
}

}  // namespace heed
