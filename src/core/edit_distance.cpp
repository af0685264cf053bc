// Computes the edit distance row by row of the table over all prefixes.
#include "core/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace heed {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 4) + 1;
  std::vector<std::string> longer;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() && candidate.rfind(word, 0) == 0) longer.push_back(candidate);
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least && 2 * distance < word.size()) {
      least = distance;
      best = candidate;
    }
  }
  return longer.size() == 1 ? longer.front() : best;
}

}  // namespace heed
