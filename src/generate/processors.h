// Processors change the scores of the next token before one is chosen. Greedy search and sampling give them
// logits, beam search log-probabilities, as transformers does. The order is fixed:
//   1. repetition penalty p: s < 0 ? s * p : s / p for every token of the sequence (Keskar et al., "CTRL")
//   2. no repeated n-grams: -inf for tokens that would complete an n-gram the sequence has
//   3. bad words: -inf for tokens that would complete one of the sequences (an end token alone is no bad
//   word)
//   4. minimum lengths: -inf for the end tokens
//   5. forced first token, after a prompt of one token: 0, all others -inf
//   6. forced last token(s), at max_length - 1: 0, all others -inf
//   7. suppressed tokens, then tokens suppressed at the beginning: -inf
//   8. sampling only: temperature, top-k, top-p (Holtzman et al.), min-p (Nguyen et al.)
//   9. renormalisation: log-softmax
#pragma once

#include <cstdint>
#include <span>

#include "heed/generate/options.h"

namespace heed::generate {

class Processors {
 public:
  /// `max_length` is the resolved one. The options must outlive the processors.
  Processors(const GenerationOptions& options, std::int64_t prompt_length, std::int64_t max_length);
  /// Whether `apply` would do anything at this length of the sequence.
  bool active(std::int64_t length) const;
  /// Changes the scores [V] of the token after `sequence` (prompt included).
  void apply(std::span<const std::int64_t> sequence, std::span<float> scores) const;

 private:
  void restrict_words(std::span<const std::int64_t> sequence, std::span<float> scores) const;
  void force(std::int64_t length, std::span<float> scores) const;
  void warp(std::span<float> scores) const;

  const GenerationOptions& options_;
  std::int64_t max_length_;
  std::int64_t min_length_;
  std::int64_t begin_length_;    ///< where begin_suppress_tokens acts
  std::int64_t min_candidates_;  ///< tokens that top-k, top-p and min-p must leave
};

}  // namespace heed::generate
