// Pairs sequences, and holds some out.
#include "data/preference_pairs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

std::span<const std::int32_t> tokens_of(const TextCorpus& corpus, std::int64_t begin, std::int64_t end) {
  return corpus.ids().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// The tokens before the first answer, as bytes.
std::string_view prompt_of(const TextCorpus& corpus, const DocumentPart& part) {
  const std::vector<TextRow>& answers = corpus.answers();
  const auto answer = std::partition_point(answers.begin(), answers.end(),
                                           [&](const TextRow& a) { return a.second <= part.begin; });
  const auto bytes = std::as_bytes(tokens_of(corpus, part.begin, answer->first));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

PreferencePairs preference_pairs(const TextCorpus& corpus, std::int64_t longest, LongDocuments policy) {
  PreferencePairs found;
  std::int64_t begin = 0;
  const auto next = [&](std::size_t document) {
    const std::int64_t end = corpus.ends()[document];
    return DocumentPart{std::exchange(begin, end), end};
  };
  for (std::size_t i = 0; i + 1 < corpus.ends().size(); i += 2) {
    PreferencePair pair{.chosen = next(i), .rejected = next(i + 1)};
    const bool longer = pair.longer() > longest;
    ++found.all;
    found.longer += longer;
    found.longest = std::max(found.longest, pair.longer());
    if (longer && policy == LongDocuments::skip) continue;
    for (DocumentPart* part : {&pair.chosen, &pair.rejected})
      part->end = std::min(part->end, part->begin + longest);
    const bool equal = std::ranges::equal(tokens_of(corpus, pair.chosen.begin, pair.chosen.end),
                                          tokens_of(corpus, pair.rejected.begin, pair.rejected.end));
    const bool learned =
        has_target(pair.chosen, corpus.answers()) && has_target(pair.rejected, corpus.answers());
    if (!learned) {
      ++found.without_targets;
    } else if (equal) {
      ++found.equal;
    } else {
      found.pairs.push_back(pair);
    }
  }
  return found;
}

std::vector<PreferencePair> hold_out_prompts(const TextCorpus& corpus, double share,
                                             std::vector<PreferencePair>& pairs) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (const PreferencePair& pair : pairs) ++counts[prompt_of(corpus, pair.chosen)];
  if (counts.size() < 2) throw Error("recipe: data.dev_share: expected pairs of at least 2 prompts, got 1");
  const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(pairs.size())));
  std::unordered_set<std::string_view> held_out;
  std::int64_t count = 0;
  for (auto pair = pairs.rbegin(); count < wanted && held_out.size() + 1 < counts.size(); ++pair) {
    const std::string_view prompt = prompt_of(corpus, pair->chosen);
    if (held_out.insert(prompt).second) count += counts[prompt];
  }
  const auto moved = std::stable_partition(pairs.begin(), pairs.end(), [&](const PreferencePair& pair) {
    return !held_out.contains(prompt_of(corpus, pair.chosen));
  });
  std::vector<PreferencePair> dev(moved, pairs.end());
  pairs.erase(moved, pairs.end());
  return dev;
}

}  // namespace heed
