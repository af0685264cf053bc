// Processors change the scores of the next token before one is chosen. Greedy search and sampling give them
// logits, beam search log-probabilities, as transformers does. The order is fixed:
//   0. sequence biases: added for tokens that would complete one of the sequences
//   0b. encoder repetition penalty p: s < 0 ? s / p : s * p for every token of the source (of a decoder, the
//   prompt)
//   1. repetition penalty p: s < 0 ? s * p : s / p for every token of the sequence (Keskar et al., "CTRL")
//   2. no repeated n-grams: -inf for tokens that would complete an n-gram the sequence has, then one the
//   source
//      has (of a decoder, the prompt)
//   3. bad words: -inf for tokens that would complete one of the sequences (an end token alone is no bad
//   word)
//   4. minimum lengths: -inf for the end tokens
//   5. forced first token, after a prompt of one token: 0, all others -inf
//   6. forced last token(s), at max_length - 1: 0, all others -inf
//   6a. invalid values: NaN becomes 0, infinities the largest numbers
//   6b. a growing score of the end tokens from some length on: s + |s| (factor^steps - 1)
//   7. suppressed tokens, then tokens suppressed at the beginning: -inf
//   8. sampling only: temperature, top-h (Potraghloo et al.), top-k, top-p (Holtzman et al.), min-p (Nguyen
//   et al.), typical-p
//      (Meister et al.), epsilon and eta cutoffs (Hewitt et al.)
//   9. renormalisation: log-softmax
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "heed/generate/options.h"

namespace heed::generate {

/// The score of a token that is not to come.
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

class Processors {
 public:
  /// `max_length` is the resolved one. The options and the source must outlive the processors.
  Processors(const GenerationOptions& options, std::int64_t prompt_length, std::int64_t max_length,
             std::span<const std::int64_t> source = {});
  std::int64_t prompt_length() const { return prompt_length_; }
  std::int64_t max_length() const { return max_length_; }
  /// Whether `apply` would do anything at this length of the sequence.
  bool active(std::int64_t length) const;
  /// Changes the scores [V] of the token after `sequence` (prompt included).
  void apply(std::span<const std::int64_t> sequence, std::span<float> scores) const;

 private:
  void restrict_words(std::span<const std::int64_t> sequence, std::span<float> scores) const;
  void force(std::int64_t length, std::span<float> scores) const;
  void warp(std::span<float> scores) const;

  const GenerationOptions& options_;
  std::span<const std::int64_t> source_;
  std::int64_t prompt_length_;
  std::int64_t max_length_;
  std::int64_t min_length_;
  std::int64_t begin_length_;    ///< where begin_suppress_tokens acts
  std::int64_t min_candidates_;  ///< tokens that top-k, top-p and min-p must leave
};

}  // namespace heed::generate
