// Pairs of answers to one prompt, of which the first is preferred, as documents of a corpus.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/packed_rows.h"
#include "data/text_corpus.h"

namespace heed {

struct PreferencePair {
  DocumentPart chosen, rejected;

  std::int64_t longer() const { return std::max(chosen.size(), rejected.size()); }
};

/// The pairs of a corpus that are learned, and how many are not whole.
struct PreferencePairs {
  std::vector<PreferencePair> pairs;
  std::int64_t all = 0;
  std::int64_t longer = 0;           ///< with more tokens than are read
  std::int64_t longest = 0;          ///< tokens of the longest sequence
  std::int64_t equal = 0;            ///< left out: the answers are the same
  std::int64_t without_targets = 0;  ///< left out: no answer in what is kept of one sequence
};

/// Of a corpus whose documents 2i and 2i + 1 are the preferred and the other sequence of pair i, each a
/// prompt and an answer: the pairs, in sequences of their first `longest` tokens, or without longer ones.
PreferencePairs preference_pairs(const TextCorpus& corpus, std::int64_t longest, LongDocuments policy);

/// Moves pairs out of `pairs`: those of the last prompts, until they are at least `share` of all. Pairs of
/// equal prompts stay together. Throws Error if there are not two prompts.
std::vector<PreferencePair> hold_out_prompts(const TextCorpus& corpus, double share,
                                             std::vector<PreferencePair>& pairs);

}  // namespace heed
