#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "heed/data/corpus.h"
#include "heed/error.h"
#include "heed/random.h"

namespace heed {

namespace {

/// FNV-1a, then Philox to mix in the seed: the same on every platform, unlike std::hash.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const auto words = philox4x32(seed, hash, text.size());
  return (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
}

using HashedSource = std::pair<std::uint64_t, std::string_view>;

/// Returns the `count` distinct sources of the lowest hashes, or all if there are fewer.
std::set<HashedSource> lowest_sources(const ParallelCorpus& corpus, std::uint64_t seed, std::size_t count) {
  std::set<HashedSource> lowest;
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    const HashedSource source{hash_text(corpus.source(row), seed), corpus.source(row)};
    if (lowest.size() == count && source > *lowest.rbegin()) continue;
    lowest.insert(source);
    if (lowest.size() > count) lowest.erase(std::prev(lowest.end()));
  }
  return lowest;
}

}  // namespace

CorpusSplit split_corpus(const ParallelCorpus& corpus, const SplitOptions& options) {
  if (options.dev < 0 || options.test < 0) {
    throw Error(fmt::format("split: expected sizes >= 0, got dev {} and test {}", options.dev, options.test));
  }
  const std::int64_t most = std::min(options.dev, corpus.size()) + std::min(options.test, corpus.size());
  const auto lowest = lowest_sources(corpus, options.seed, static_cast<std::size_t>(most) + 1);
  const auto found = static_cast<std::int64_t>(lowest.size());
  if (options.dev >= found || options.test >= found - options.dev) {
    throw Error(fmt::format(
        "split: expected dev + test below the {} distinct source texts, got {} + {} (ask for less, "
        "or give more text)",
        found, options.dev, options.test));
  }
  enum class Part : std::uint8_t { dev, test };
  std::unordered_map<std::string_view, Part> held_out;
  for (auto source = lowest.begin(); source != std::prev(lowest.end()); ++source) {
    const auto taken = static_cast<std::int64_t>(held_out.size());
    held_out.emplace(source->second, taken < options.test ? Part::test : Part::dev);
  }
  CorpusSplit split;
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    const auto held = held_out.find(corpus.source(row));
    if (held == held_out.end()) {
      split.train.push_back(row);
    } else {
      (held->second == Part::test ? split.test : split.dev).push_back(row);
    }
  }
  return split;
}

std::vector<ReferenceGroup> group_references(const ParallelCorpus& corpus,
                                             std::span<const std::int64_t> rows) {
  std::unordered_map<std::string_view, std::size_t> place;
  std::vector<ReferenceGroup> groups;
  for (const std::int64_t row : rows) {
    const auto [entry, is_new] = place.emplace(corpus.source(row), groups.size());
    if (is_new) groups.push_back({std::string(corpus.source(row)), {}});
    auto& references = groups[entry->second].references;
    if (std::find(references.begin(), references.end(), corpus.target(row)) == references.end()) {
      references.emplace_back(corpus.target(row));
    }
  }
  return groups;
}

}  // namespace heed
