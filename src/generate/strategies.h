// The two ways to search, behind one face: one sequence per row (greedy or sampled), and beams.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "generate/attention_recorder.h"
#include "generate/processors.h"
#include "heed/generate/search.h"
#include "heed/random.h"

namespace heed::generate {

/// What a strategy works with. The options have been checked.
struct SearchState {
  Decoding& decoding;
  std::span<const std::vector<std::int64_t>> prompts;  ///< one or more tokens each
  const GenerationOptions& options;
  const std::vector<Processors>& processors;     ///< one per prompt, with its lengths
  const std::vector<std::uint64_t>& identities;  ///< one per prompt
  const SearchHooks& hooks;
  AttentionRecorder& recorder;

  std::int64_t sources() const { return static_cast<std::int64_t>(prompts.size()); }
  const std::vector<std::int64_t>& prompt_of(std::int64_t source) const {
    return prompts[static_cast<std::size_t>(source)];
  }
  std::int64_t prompt_length(std::int64_t source) const { return processors_of(source).prompt_length(); }
  std::int64_t max_length(std::int64_t source) const { return processors_of(source).max_length(); }
  const Processors& processors_of(std::int64_t source) const {
    return processors[static_cast<std::size_t>(source)];
  }
  /// Whether the last of `ids`, prompt included, ends the sequence.
  bool is_end(std::int64_t source, std::span<const std::int64_t> ids) const;
  /// Random numbers for the token after a sequence of this length; `copy` tells apart rows of one identity.
  RandomStream random(std::int64_t source, std::int64_t length, std::int64_t copy) const;
  /// Goes on with what rows `rows` were.
  void reorder(const std::vector<std::int64_t>& rows) const;
  /// Feeds the prompts. Throws Error when they or the options name tokens that the scores do not have.
  Tensor begin() const;
  /// Feeds one token per row.
  Tensor feed(const std::vector<std::int64_t>& tokens) const;
};

/// Scores to look through that make a thread worth waking.
constexpr std::int64_t kScoresPerThread = 32768;

/// The longest sequence after a prompt, prompt included. Throws Error where that leaves no new token.
std::int64_t longest_sequence(std::int64_t prompt_length, const GenerationOptions& options,
                              std::optional<std::int64_t> longest);

/// Gumbel noise: added to scores, it makes their argmax a draw from softmax, and the k largest a draw of k
/// without replacement (Kool et al., "Stochastic beams and where to find them").
float gumbel(const RandomStream& random, std::uint64_t index);

/// Throws Error when the scores are not numbers.
void require_number(float score);

std::vector<std::vector<Hypothesis>> search_rows(const SearchState& state);
std::vector<std::vector<Hypothesis>> search_beams(const SearchState& state);

}  // namespace heed::generate
