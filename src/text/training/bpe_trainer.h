// Training of byte pair encodings (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
// Units", ACL 2016): the pair of neighbors that is most frequent in the words becomes a token, and so on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heed {

/// A word of the corpus and how often it occurs.
struct CountedWord {
  std::string word;
  std::int64_t count = 0;
};

struct BpeTraining {
  std::int64_t vocab_size = 0;     ///< number of tokens, the special ones and the alphabet included
  std::int64_t min_frequency = 0;  ///< pairs below this count are not merged
  std::vector<std::string> special_tokens;
  std::vector<char32_t> alphabet;              ///< characters that are tokens even if the words lack them
  std::optional<std::size_t> most_characters;  ///< of the words' characters, keep the most frequent
  std::string prefix;                          ///< of tokens that do not begin a word, such as ##
};

struct TrainedBpe {
  /// By id: special tokens, characters, characters with the prefix, merged pairs in the order of merging.
  std::vector<std::string> tokens;
  /// Pairs of ids, in the order of merging.
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
};

/// Trains on words of valid UTF-8 without repetition, which must be sorted. The result equals that of
/// BpeTrainer in the tokenizers library (0.22), which takes, of pairs with equal counts, that of the lowest
/// ids; its ids of characters with a prefix, and what it drops of equally rare characters, depend on the
/// order of a hash table, while here both follow the code points. Throws Error if the characters and special
/// tokens alone are more than vocab_size (`where` begins the message).
TrainedBpe train_bpe(const std::vector<CountedWord>& words, const BpeTraining& training, const char* where);

}  // namespace heed
