// The likeliest tokens of a distribution.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace heed::generate {

/// The tokens with the highest log-probabilities, highest first, in a tie by id.
inline std::vector<std::pair<std::int64_t, double>> best_tokens(std::span<const float> log_probs,
                                                                std::int64_t count) {
  if (count == 0) return {};
  std::vector<std::int64_t> order(log_probs.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto end = order.begin() + std::min(count, std::ssize(order));
  const auto at = [&](std::int64_t token) { return log_probs[static_cast<std::size_t>(token)]; };
  std::partial_sort(order.begin(), end, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  std::vector<std::pair<std::int64_t, double>> best;
  for (auto token = order.begin(); token != end; ++token) best.emplace_back(*token, at(*token));
  return best;
}

}  // namespace heed::generate
