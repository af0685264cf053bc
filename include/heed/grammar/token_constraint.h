// Keeps a search to the texts of a grammar: tokens that no text goes on with get the score -infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/grammar/grammar.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

/// The texts of a tokenizer's tokens as a tree, made once per model: 49,152 tokens take 50 ms. Cheap to copy.
/// Threads: several may use one object at once.
class TokenVocabulary {
 public:
  /// Special tokens are left out: they are never part of a text.
  explicit TokenVocabulary(const Tokenizer& tokenizer);
  /// The bytes of each id; tokens without bytes are left out.
  explicit TokenVocabulary(const std::vector<std::string>& bytes);

  struct Tree;
  const std::shared_ptr<const Tree>& tree() const { return tree_; }

 private:
  std::shared_ptr<const Tree> tree_;
};

/// Returns a function for SearchHooks::process (heed/generate/search.h) that sets the scores of all tokens to
/// -infinity but those after which what follows the prompt is the beginning of a text of the grammar, and,
/// where it is a whole text, `end_ids`. `prompt_lengths` are the numbers of tokens of each row's prompt; one
/// number is for all rows. Copies share what they know about prefixes, and any thread may call them.
///
/// A search thus ends in a text of the grammar, or at the largest length in the beginning of one. Where a
/// text may only end and no end token has a score, all are -infinity, which ends the search. The function
/// throws Error if no token with a score continues a text that is not whole: other options excluded those
/// that do, or the vocabulary has no tokens for it.
std::function<void(std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores)>
constrain_tokens(const Grammar& grammar, const TokenVocabulary& vocabulary,
                 std::vector<std::size_t> prompt_lengths, std::vector<std::int64_t> end_ids);

}  // namespace heed
