// How much of a head's attention follows a simple pattern.
#include "plot/pattern_scores.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace heed::plot {
namespace {

double weight_at(const AttentionMap& map, std::int64_t query, std::int64_t key) {
  return static_cast<double>(map.weights[static_cast<std::size_t>(query * map.keys + key)]);
}

/// The mean over the queries that have such keys of the sum of their weights: key follows(query, key).
template <typename Follows>
double mean_weight(const AttentionMap& map, const Follows& follows) {
  double total = 0;
  std::int64_t queries = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    bool can = false;
    for (std::int64_t key = 0; key < map.keys; ++key) {
      if (!follows(query, key)) continue;
      can = true;
      total += weight_at(map, query, key);
    }
    queries += can ? 1 : 0;
  }
  return queries > 0 ? total / static_cast<double>(queries) : 0;
}

/// The same of the one key_of(query), where there is such a key.
template <typename KeyOf>
double mean_weight_of_key(const AttentionMap& map, const KeyOf& key_of) {
  double total = 0;
  std::int64_t queries = 0;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    const std::int64_t key = key_of(query);
    if (key < 0 || key >= map.keys) continue;
    total += weight_at(map, query, key);
    ++queries;
  }
  return queries > 0 ? total / static_cast<double>(queries) : 0;
}

/// A number for each token, the same for equal ones: a comparison of texts for each cell of each map takes
/// long.
std::vector<std::size_t> numbers_of(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string, std::size_t> known;
  std::vector<std::size_t> numbers;
  for (const std::string& token : tokens) numbers.push_back(known.emplace(token, known.size()).first->second);
  return numbers;
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
  const bool self = map.kind != "cross" && map.queries == map.keys && tokens.query_range == tokens.key_range;
  std::vector<std::pair<std::string, double>> scores;
  if (self) {
    const std::vector<std::size_t> numbers = numbers_of(tokens.keys);
    const auto same = [&](std::int64_t a, std::int64_t b) {
      return numbers[static_cast<std::size_t>(a)] == numbers[static_cast<std::size_t>(b)];
    };
    scores.emplace_back("previous", mean_weight_of_key(map, [](auto q) { return q - 1; }));
    scores.emplace_back("next", mean_weight_of_key(map, [](auto q) { return q + 1; }));
    scores.emplace_back("same", mean_weight_of_key(map, [](auto q) { return q; }));
    scores.emplace_back("repeat", mean_weight(map, [&](auto q, auto k) { return k != q && same(q, k); }));
    scores.emplace_back("induction", mean_weight(map, [&](auto q, auto k) {
                          return k > 0 && k - 1 < q && same(q, k - 1) && k != q;
                        }));
  }
  if (tokens.key_range[0] == 0) scores.emplace_back("first", mean_weight_of_key(map, [](auto) { return 0; }));
  scores.emplace_back("focus", focus(map, self));
  return scores;
}

}  // namespace heed::plot
