// Processors change the scores of the next token before one is chosen. As in transformers, the scores are
// logits in greedy search and sampling, and log-probabilities in beam search. The order is fixed:
//   0. sequence biases: added to tokens that would complete one of the sequences
//   0b. encoder repetition penalty p: s < 0 ? s / p : s * p for every token of the source (of a decoder: the
//       prompt)
//   1. repetition penalty p: s < 0 ? s * p : s / p for every token of the sequence (Keskar et al., "CTRL")
//   2. no repeated n-grams: -inf for tokens that would complete an n-gram of the sequence, then of the source
//      (of a decoder: the prompt)
//   3. bad words: -inf for tokens that would complete one of the sequences (an end token alone is not a bad
//      word)
//   4. minimum lengths: -inf for the end tokens
//   5. forced first token, after a prompt of one token: 0, all others -inf
//   6. forced last token(s), at max_length - 1: 0, all others -inf
//   6a. invalid values: NaN becomes 0, infinities the largest finite numbers
//   6b. exponential decay length penalty: from some length on, the end tokens' scores become s + |s|
//       (factor^steps - 1)
//   7. suppressed tokens, then tokens suppressed at the beginning: -inf
//   7a. the caller's own (SearchHooks::process)
//   8. sampling only: temperature, top-h (Potraghloo et al.), top-k, top-p (Holtzman et al.), min-p (Nguyen
//      et al.), typical-p (Meister et al.), epsilon and eta cutoffs (Hewitt et al.)
//   9. renormalization: log-softmax
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "heed/generate/options.h"

namespace heed::generate {

/// The score of a token that must not be generated.
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Changes the scores [V] of the token after `sequence`, which includes the prompt.
using ProcessScores = std::function<void(std::span<const std::int64_t> sequence, std::span<float> scores)>;

class Processors {
 public:
  /// `max_length` is the resolved maximum. The options and the source must outlive the processors.
  Processors(const GenerationOptions& options, std::int64_t prompt_length, std::int64_t max_length,
             std::span<const std::int64_t> source = {}, ProcessScores own = {});
  std::int64_t prompt_length() const { return prompt_length_; }
  std::int64_t max_length() const { return max_length_; }
  /// Returns true if `apply` would change anything at this length of the sequence.
  bool active(std::int64_t length) const;
  /// Changes the scores [V] of the token after `sequence`, which includes the prompt.
  void apply(std::span<const std::int64_t> sequence, std::span<float> scores) const;

 private:
  void restrict_words(std::span<const std::int64_t> sequence, std::span<float> scores) const;
  void force(std::int64_t length, std::span<float> scores) const;
  void warp(std::span<float> scores) const;

  const GenerationOptions& options_;
  std::span<const std::int64_t> source_;
  ProcessScores own_;
  std::int64_t prompt_length_;
  std::int64_t max_length_;
  std::int64_t min_length_;
  std::int64_t begin_length_;    ///< length at which begin_suppress_tokens applies
  std::int64_t min_candidates_;  ///< tokens that top-k, top-p and min-p must keep
};

}  // namespace heed::generate
