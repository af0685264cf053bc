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

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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

// The rules of Whisper's timestamps, as a processor of scores (OpenAI's whisper, ApplyTimestampRules):
//   - the first token is a timestamp, at most the largest initial one
//   - timestamps come in pairs: the end of a segment and the start of the next; a single one may stand before
//     the end token
//   - no timestamp is before an earlier one, and no segment is empty
//   - a timestamp is chosen where all of them together are likelier than the likeliest other token

struct TimestampRules {
  std::int64_t end = 0;            ///< the end token; tokens before it are text
  std::int64_t no_timestamps = 0;  ///< the token <|notimestamps|>; those after it are timestamps
  std::optional<std::int64_t> most_initial = {};  ///< of the first timestamp, counted from 0.00

  std::int64_t first() const { return no_timestamps + 1; }
  /// Changes the scores [V], logits or log-probabilities, of the token after the new tokens `ids`.
  void apply(std::span<const std::int64_t> ids, std::span<float> scores) const;
};

// The likeliest tokens of a distribution.

/// The tokens with the highest log-probabilities, highest first, in a tie by id.
inline std::vector<std::pair<std::int64_t, double>> best_tokens(std::span<const float> log_probs,
                                                                std::int64_t count) {
  if (count == 0) return {};
  std::vector<std::int64_t> order(log_probs.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto end = order.begin() + std::min(count, std::ssize(order));
  const auto at = [&](std::int64_t token) { return log_probs[static_cast<std::size_t>(token)]; };
  std::partial_sort(order.begin(), end, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  std::vector<std::pair<std::int64_t, double>> best;
  for (auto token = order.begin(); token != end; ++token) best.emplace_back(*token, at(*token));
  return best;
}

}  // namespace heed::generate
