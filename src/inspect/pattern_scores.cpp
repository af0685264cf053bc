// How much of a head's attention follows a simple pattern.
#include "inspect/pattern_scores.h"

#include <algorithm>
#include <functional>

namespace heed::inspect {
namespace {

/// The mean over the queries that have such keys of the sum of their weights.
double mean_weight(const AttentionMap& map,
                   const std::function<bool(std::int64_t query, std::int64_t key)>& follows) {
  double total = 0;
  std::int64_t queries = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    bool can = false;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      if (!follows(query, key)) continue;
      can = true;
      total += static_cast<double>(map.weights[static_cast<std::size_t>(query * map.keys + key)]);
    }
    queries += can ? 1 : 0;
  }
  return queries > 0 ? total / static_cast<double>(queries) : 0;
}

double focus(const AttentionMap& map, bool self) {
  double total = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    float largest = 0;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const bool plain = map.keys > 2 && (key == 0 || key == map.keys - 1 || (self && key == query));
      if (!plain) largest = std::max(largest, map.weights[static_cast<std::size_t>(query * map.keys + key)]);
    }
    total += static_cast<double>(largest);
  }
  return total / static_cast<double>(map.queries);
}

}  // namespace

std::vector<std::pair<std::string, double>> pattern_scores(const AttentionMap& map,
                                                           const AttentionTokens& tokens) {
  const bool self = map.kind != "cross" && map.queries == map.keys;
  std::vector<std::pair<std::string, double>> scores;
  if (self) {
    const auto same = [&](std::int64_t a, std::int64_t b) {
      return tokens.keys[static_cast<std::size_t>(a)] == tokens.keys[static_cast<std::size_t>(b)];
    };
    scores.emplace_back("previous", mean_weight(map, [](auto q, auto k) { return k == q - 1; }));
    scores.emplace_back("next", mean_weight(map, [](auto q, auto k) { return k == q + 1; }));
    scores.emplace_back("same", mean_weight(map, [](auto q, auto k) { return k == q; }));
    scores.emplace_back("repeat", mean_weight(map, [&](auto q, auto k) { return k != q && same(q, k); }));
    scores.emplace_back("induction", mean_weight(map, [&](auto q, auto k) {
                          return k > 0 && k - 1 < q && same(q, k - 1) && k != q;
                        }));
  }
  scores.emplace_back("first", mean_weight(map, [](auto, auto k) { return k == 0; }));
  scores.emplace_back("focus", focus(map, self));
  return scores;
}

}  // namespace heed::inspect
